"""Ray: a real cluster of one node, and one of two on loopback, of which one is lost while a cell kills its process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")

from leakscope.audits.audit import run_cells
from leakscope.cells.request import Request
from leakscope.cells.run import run_cell
from leakscope.runs.executors import choose_executor

SCRIPT = Path(__file__).parent / "two_nodes.py"


def test_a_cell_gives_the_same_numbers_on_a_cluster_that_is_started_here(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    request = Request(model="cnn-mnist", n=2, epochs=1, attacks=["sme"], iterations=2)
    (cell,) = request.cells()
    result = run_cells([cell], tmp_path / "run", request, execute=choose_executor("ray"), command="test")
    assert [one["status"] for one in result.cells] == ["finished"]
    assert result.cells[0]["metrics"] == run_cell(cell).record.metrics


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_lost_node_loses_nothing_and_a_poisoned_cell_fails_alone(tmp_path):
    (tmp_path / "deadly.py").write_text("import os\nos._exit(9)\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LEAKSCOPE_", "RAY_"))}
    places = os.pathsep.join([str(tmp_path), *filter(None, [clean.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env={**clean, "OMP_NUM_THREADS": "1", "TORCH_HOME": "/nonexistent", "PYTHONPATH": places},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["lost"] == [2], "a node was killed while both were at work"
    assert told["complete"]
    *good, poisoned = told["cells"]
    assert [cell["status"] for cell in good] == ["finished"] * 3
    assert [cell["client"]["seed"] for cell in good] == [0, 1, 2]
    assert poisoned["status"] == "failed"
    assert "lost 3 times" in poisoned["error"]
    assert good[0]["metrics"] == told["here"], "the numbers do not depend on where a cell runs"
    for cell in good:
        place = tmp_path / "run" / "cells" / cell["key"]
        assert json.loads((place / "cell.json").read_text())["metrics"] == cell["metrics"]
        assert (place / "images.safetensors").exists()
        events = [json.loads(line)["event"] for line in (place / "events.jsonl").read_text().splitlines()]
        assert events.count("start") >= 1
        assert events[-1] == "end"
        assert not list(place.glob(".*")), "nothing half-written is left"
