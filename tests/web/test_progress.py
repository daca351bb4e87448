"""Progress: the state of every cell, and an estimate of the time left that follows from the speed measured."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from leakscope.web.folder import RunsFolder
from leakscope.web.progress import HEAD, Progress, time_left
from sample_run import write_run


@pytest.fixture
def going(tmp_path: Path) -> Path:
    """Three cells: one done, one at iteration 100 of 300 with 10 per second, one waiting."""
    write_run(tmp_path / "a", attacks=("ig", "sme", "nl-sme"), n=3, finished=False)
    plan = json.loads((tmp_path / "a" / "plan.json").read_text())
    keys = [cell["key"] for cell in plan["cells"]]
    for key in keys[1:]:
        (tmp_path / "a" / "cells" / key / "cell.json").unlink()
    now = time.time()
    steps = [{"iteration": k, "time": now - 10 + k / 10, "psnr": k / 10} for k in (0, 50, 100)]
    events = [{"event": "start", "time": now - 10}]
    events += [{"event": "progress", "iterations": 300, "worker": 7, **step} for step in steps]
    (tmp_path / "a" / "cells" / keys[1] / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    return tmp_path


def test_each_cell_has_its_state(going: Path) -> None:
    entries = Progress(RunsFolder(going), "a").snapshot(working=True)
    head = entries.pop(HEAD)
    assert [cell["status"] for cell in entries.values()] == ["finished", "running", "waiting"]
    active = list(entries.values())[1]
    assert active["speed"] == pytest.approx(10, rel=1e-3)
    assert active["left"] == pytest.approx(20, rel=1e-3)
    assert active["worker"] == 7
    assert [point[0] for point in active["points"]] == [0, 50, 100]
    assert (head["done"], head["planned"], head["workers"]) == (1, 3, 1)
    assert head["left"] == pytest.approx(20 + 30, rel=1e-3)
    assert head["share"] == pytest.approx((1 + 1 / 3) / 3)


def test_a_stopped_run_has_no_running_cell_and_no_time_left(going: Path) -> None:
    for events in going.glob("a/cells/*/events.jsonl"):
        events.write_text(events.read_text().replace('"worker": 7', '"worker": 0'))
        os.utime(events, (1000, 1000))
    entries = Progress(RunsFolder(going), "a").snapshot(working=False)
    head = entries.pop(HEAD)
    assert (head["state"], head["left"]) == ("stopped", None)
    assert [cell["status"] for cell in entries.values()] == ["finished", "stopped", "waiting"]


def test_a_broken_run_is_its_head_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "plan.json").write_text("{")
    entries = Progress(RunsFolder(tmp_path), "a").snapshot(working=False)
    assert list(entries) == [HEAD]
    assert entries[HEAD]["state"] == "broken"


def test_two_workers_share_what_waits() -> None:
    running = {"status": "running", "speed": 10.0, "left": 5.0, "iterations": 100}
    waiting = {"status": "waiting", "speed": None, "left": None, "iterations": 100}
    assert time_left({"a": running, "b": running, "c": waiting, "d": waiting}) == pytest.approx(5 + 200 / 20)
    assert time_left({"a": waiting}) is None
    assert time_left({"a": {**running, "speed": None, "left": None}}) is None
