"""Event files are read while they grow: torn lines wait, foreign ones are passed over, a resumed attack draws over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leakscope.files import CHUNK
from leakscope.web.events import POINTS, EventLog, last_sign


def line(iteration: int, *, at: float = 0.0, **more: object) -> str:
    return json.dumps({"event": "progress", "time": at, "iteration": iteration, "iterations": 100, **more}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "events.jsonl")


def append(log: EventLog, text: str) -> EventLog:
    with log.path.open("a", encoding="utf-8") as file:
        file.write(text)
    log.read()
    return log


def test_a_missing_file_is_no_news(log: EventLog) -> None:
    log.read()
    assert log.latest == {}


def test_only_new_lines_are_read_and_a_torn_one_waits(log: EventLog) -> None:
    whole = line(10, psnr=12.0)
    append(log, whole + whole[:15].replace("10", "20"))
    assert log.latest["iteration"] == 10
    append(log, whole[15:].replace("10", "20"))
    assert log.latest["iteration"] == 20
    assert log.offset == 2 * len(whole)


def test_foreign_lines_are_passed_over(log: EventLog) -> None:
    append(log, '[1]\nnull\n{"iteration": "x"}\n\x00\n{broken\n' + line(5, psnr=1.0))
    assert log.points == [(5.0, 1.0, None, None)]


def test_speed_counts_from_the_last_start(log: EventLog) -> None:
    append(log, line(0, at=100.0) + line(50, at=105.0))
    assert log.speed == pytest.approx(10)
    append(log, json.dumps({"event": "start", "time": 500.0}) + "\n" + line(40, at=510.0) + line(60, at=514.0))
    assert log.speed == pytest.approx(5)


def test_a_resumed_attack_draws_over_what_came_after_its_checkpoint(log: EventLog) -> None:
    append(log, line(10, psnr=1.0) + line(20, psnr=2.0) + line(30, psnr=3.0) + line(20, psnr=2.5))
    assert [point[:2] for point in log.points] == [(10.0, 1.0), (20.0, 2.5)]


def test_repeated_values_make_no_step(log: EventLog) -> None:
    append(log, line(50, psnr=1.0) + line(53, psnr=1.0) + line(100, psnr=2.0))
    assert [point[0] for point in log.points] == [50.0, 100.0]


def test_a_long_curve_is_thinned_and_keeps_its_ends(log: EventLog) -> None:
    append(log, "".join(line(k, psnr=float(k)) for k in range(1500)))
    assert len(log.points) <= 2 * POINTS
    assert log.points[0][0] == 0
    assert log.points[-1][0] == 1499


def test_a_file_that_was_replaced_is_read_anew(log: EventLog) -> None:
    append(log, line(10, psnr=1.0) * 3)
    log.path.write_text(line(1, psnr=9.0))
    log.read()
    assert log.latest["psnr"] == 9.0


def test_a_line_without_end_is_dropped(log: EventLog) -> None:
    append(log, "x" * (CHUNK + 10))
    assert len(log.rest) < CHUNK
    append(log, "\n" + line(3, psnr=1.0))
    log.read()
    assert log.latest["iteration"] == 3


def test_the_last_sign_of_a_run(tmp_path: Path) -> None:
    assert last_sign(tmp_path) == (0.0, None)
    for name, when in (("old", 1000), ("new", 2000)):
        path = tmp_path / "cells" / name / "events.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(line(1, worker=when) + '{"torn')
        os.utime(path, (when, when))
    assert last_sign(tmp_path) == (2000.0, 2000)
