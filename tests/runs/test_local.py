"""Parallel processes on this machine."""

import pytest

from leakscope.cells.request import Request
from leakscope.runs.local import DIED, run_in_processes
from leakscope.runs.places import Places
from leakscope.runs.store import Run


@pytest.mark.timeout(600)
def test_a_cell_that_kills_its_process_fails_alone(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.syspath_prepend(tmp_path)
    (good,) = Request(model="cnn-mnist", n=1, epochs=1, attacks=("sme",), iterations=2).cells()
    deadly = good.but(model="deadly:model")
    run = Run.open(tmp_path / "run", [deadly, good], command="test")
    told = []
    assert run_in_processes(run, [deadly, good], Places(), workers=2, notice=told.append)
    assert run.result(good.key) is not None
    assert run.ended(deadly.key).error == DIED
    assert [event["key"] for event in told if event["event"] == "failed"] == [deadly.key]
