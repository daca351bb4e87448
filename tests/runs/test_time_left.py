"""The time a run will still take."""

import pytest

from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from leakscope.runs.time_left import TimeLeft


def test_attacks_are_told_apart_and_workers_share_the_work():
    slow, quick = grid(Request(attacks=("nl-sme", "ig"), iterations=100, n=2), "photos", "")
    later = slow.but(seed=9)
    now = [0.0]
    left = TimeLeft([slow, quick, later], workers=2, clock=lambda: now[0])
    assert left.seconds is None
    assert str(left) == ""

    def tell(cell, event, iteration):
        left({"event": event, "key": cell.key, "iteration": iteration, "iterations": 100})

    tell(slow, "start", 0)
    tell(quick, "start", 0)
    now[0] = 50.0
    tell(slow, "progress", 10)
    tell(quick, "progress", 50)
    assert left.seconds == pytest.approx((90 * 5 + 50 * 1 + 100 * 5) / 2)
    now[0] = 100.0
    tell(quick, "end", 100)
    left({"event": "failed", "key": slow.key, "error": "x"})
    assert left.seconds == pytest.approx(100 * 5 / 2)
