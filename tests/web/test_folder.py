"""The folder of runs: what is listed, what state it is in, and that nothing in it can break the list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope.errors import InputError
from leakscope.web.folder import RunsFolder
from sample_run import write_run


def unfinished(path: Path, *, age: float, worker: int) -> Path:
    """A run with one of two cells done, whose last event is `age` seconds old."""
    write_run(path, attacks=("ig", "sme"), n=3, finished=False)
    cell = sorted((path / "cells").iterdir())[0]
    (cell / "cell.json").unlink()
    events = cell / "events.jsonl"
    events.write_text(
        json.dumps({"event": "progress", "time": time.time() - age, "iteration": 3, "worker": worker}) + "\n"
    )
    os.utime(events, (time.time() - age,) * 2)
    return path


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_runs_are_listed_newest_first_and_other_things_are_not(tmp_path: Path) -> None:
    for place, name in enumerate(("a", "b")):
        os.utime(write_run(tmp_path / name, n=3), (1000 + place,) * 2)
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden" / "cells").mkdir(parents=True)
    (tmp_path / "result.txt").write_text("")
    assert RunsFolder(tmp_path).names() == ["b", "a"]
    assert RunsFolder(tmp_path / "nowhere").names() == []


def test_a_finished_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", n=3)
    overview = RunsFolder(tmp_path).overview("a", working=False)
    assert (overview.state, overview.done, overview.planned) == ("finished", 1, 1)
    assert overview.subject.startswith("photos · cnn-cifar")


@pytest.mark.parametrize(
    ("age", "worker", "state"),
    [(1, gone, "running"), (60, os.getpid, "running"), (60, gone, "stopped"), (3600, os.getpid, "stopped")],
)
def test_an_unfinished_run_goes_on_while_it_gives_signs_of_life(
    tmp_path: Path, age: float, worker: Callable[[], int], state: str
) -> None:
    unfinished(tmp_path / "a", age=age, worker=worker())
    overview = RunsFolder(tmp_path).overview("a", working=False)
    assert (overview.state, overview.done, overview.planned) == (state, 1, 2)


def test_no_signal_is_sent_where_it_would_be_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*_: int) -> None:
        raise AssertionError("signal 0 is CTRL_C_EVENT on Windows")

    unfinished(tmp_path / "a", age=60, worker=os.getpid())
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", kill)
    assert RunsFolder(tmp_path).overview("a", working=False).state == "stopped"


def test_a_run_that_has_just_begun_is_starting(tmp_path: Path) -> None:
    assert RunsFolder(tmp_path).overview("soon", working=True).state == "starting"


def test_a_broken_run_says_why_without_naming_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").write_text("{")
    overview = RunsFolder(tmp_path).overview("a", working=False)
    assert overview.state == "broken"
    assert "a/result.json" in overview.problem
    assert str(tmp_path) not in overview.problem


def test_a_changed_run_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    write_run(tmp_path / "a", n=3)
    folder = RunsFolder(tmp_path)
    assert folder.read("a") is folder.read("a")
    (tmp_path / "a" / "result.json").write_text("{")
    with pytest.raises(InputError):
        folder.read("a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".leakscope", "a\n", "x" * 101, "-rf"])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        RunsFolder(tmp_path).place(name)


def test_links_that_lead_out(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "index.html").symlink_to("/etc/hostname")
    folder = RunsFolder(tmp_path / "runs")
    with pytest.raises(InputError, match="leads out"):
        folder.place("a", "index.html")
    assert folder.place("a", "result.json") == (tmp_path / "runs" / "a" / "result.json").resolve()
