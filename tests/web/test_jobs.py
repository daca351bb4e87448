"""Audits started here: they run, stop with their state kept, go on from it, and never run what a file on disk says."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.errors import InputError
from leakscope.web import jobs as module
from leakscope.web.folder import RunsFolder
from leakscope.web.form import read_form
from leakscope.web.jobs import Jobs

COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in.py")))


def form(name: str = "mine", **more: str) -> Any:
    return read_form({"name": [name], "attack": ["sme"], **{key: [value] for key, value in more.items()}})


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(RunsFolder(tmp_path), command=COMMAND)
    yield made
    made.stop_all()


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return value


def events(jobs: Jobs, name: str = "mine") -> list[dict[str, Any]]:
    path = jobs.folder.path / name / "cells" / "cell0" / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_audit_runs_to_its_end(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_ITERATIONS", "3")
    jobs.start(form(n="4"))
    assert jobs.working() == ["mine"]
    until(lambda: not jobs.is_working("mine"))
    run = jobs.folder.read("mine")
    assert run.finished
    assert "--n 4" in run.command
    assert jobs.complaint("mine") == ""


def test_stopped_it_keeps_its_state_and_resumed_it_goes_on_from_there(jobs: Jobs) -> None:
    jobs.start(form())
    until(lambda: len(events(jobs)) > 5)
    jobs.stop("mine")
    until(lambda: not jobs.is_working("mine"))
    reached = events(jobs)[-1]["iteration"]
    assert reached < 40
    assert jobs.complaint("mine") == ""
    assert not jobs.folder.read("mine").finished
    later = Jobs(jobs.folder, command=COMMAND)  # another dashboard over the same folder
    assert later.can_resume("mine")
    later.resume("mine")
    until(lambda: not later.is_working("mine"))
    cell = jobs.folder.read("mine").cells[0]
    assert cell.notes["start"] == reached
    assert jobs.folder.read("mine").finished


def test_where_a_process_of_its_own_group_is_interrupted_by_ctrl_break(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, whose names are put in place here: with SIGINT it would be an error there."""
    sent: list[int] = []
    started: dict[str, Any] = {}

    class Process:
        code: int | None = None

        def __init__(self, *_: Any, **options: Any) -> None:
            started.update(options)

        def poll(self) -> int | None:
            return self.code

        def send_signal(self, number: int) -> None:
            sent.append(number)
            self.code = 0xC000013A

    monkeypatch.setattr(module.signal, "CTRL_BREAK_EVENT", 1, raising=False)
    monkeypatch.setattr(module.subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    monkeypatch.setattr(module.subprocess, "Popen", Process)
    jobs.start(form())
    assert started["creationflags"] == 0x200
    jobs.stop("mine")
    assert sent == [1]
    assert jobs.complaint("mine") == ""


def test_a_name_is_used_once(jobs: Jobs) -> None:
    jobs.start(form())
    until(lambda: events(jobs))
    with pytest.raises(InputError, match="already"):
        jobs.start(form())
    with pytest.raises(InputError, match="running already"):
        jobs.resume("mine")


def test_a_failed_audit_says_why(jobs: Jobs) -> None:
    jobs.start(form(seed="666"))
    until(lambda: not jobs.is_working("mine"))
    assert "this seed is not allowed" in jobs.complaint("mine")


def test_a_command_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Jobs(RunsFolder(tmp_path), command=(str(tmp_path / "nowhere"),)).start(form())


def test_only_what_was_started_here_can_be_stopped_or_resumed(jobs: Jobs) -> None:
    with pytest.raises(InputError, match="not running here"):
        jobs.stop("other")
    with pytest.raises(InputError, match="not started here"):
        jobs.resume("other")
    assert not jobs.can_resume("other")


@pytest.mark.parametrize(
    "note",
    [
        "{",
        "[]",
        '{"attack": ["sme"], "out": ["/etc"]}',
        '{"attack": ["--out=/etc"]}',
        '{"attack": ["sme"], "defense": ["x; rm -rf /"]}',
        '{"attack": "sme"}',
    ],
)
def test_nothing_on_disk_becomes_a_command(jobs: Jobs, note: str) -> None:
    (jobs.folder.path / ".leakscope").mkdir()
    (jobs.folder.path / ".leakscope" / "mine.json").write_text(note)
    with pytest.raises(InputError):
        jobs.resume("mine")
    assert jobs.working() == []


def test_there_is_a_limit(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_JOBS", 1)
    jobs.start(form("one"))
    with pytest.raises(InputError, match="1 audits are running"):
        jobs.start(form("two"))


def test_ending_stops_all_of_them_with_their_state(jobs: Jobs) -> None:
    for name in ("one", "two"):
        jobs.start(form(name))
    until(lambda: events(jobs, "one") and events(jobs, "two"))
    workers = [events(jobs, name)[-1]["worker"] for name in ("one", "two")]
    jobs.stop_all()
    for name, worker in zip(("one", "two"), workers, strict=True):
        assert (jobs.folder.path / name / "cells" / "cell0" / "checkpoint").exists()
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
