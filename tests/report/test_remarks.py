"""The worst round, and doubts about the updates, in the report and in words."""

from __future__ import annotations

import json
from pathlib import Path

from judged import read
from leakscope.report import render
from leakscope.report.remarks import doubts, worst_round
from sample_run import write_run

NOTE = {"kind": "mode", "severity": "warning", "found": "trained in <train> mode", "why": "norms", "fix": "record it"}


def rounds_of(tmp_path: Path) -> tuple[Path, dict]:
    """A run whose cells are rounds, with a doubt about each."""
    run = write_run(tmp_path / "run", n=6, rounds=(1, 2, 3))
    result = json.loads((run / "result.json").read_text())
    for cell in result["cells"]:
        cell["notes"] = {"preflight": [NOTE]}
    (run / "result.json").write_text(json.dumps(result))
    return run, result


def test_the_worst_round_is_named(tmp_path: Path) -> None:
    run, result = rounds_of(tmp_path)
    worst = next(cell for cell in result["cells"] if cell["key"] == result["summary"]["worst"])
    cells = [read(cell) for cell in result["cells"]]
    said = worst_round(cells)
    assert said is not None
    assert said.startswith(f"Worst round: {worst['round']}, level {result['summary']['level']}.")
    assert said in render(run).read_text(encoding="utf-8").replace("&#39;", "'")
    assert worst_round([read(worst)]) is None


def test_each_doubt_is_told_once_and_escaped(tmp_path: Path) -> None:
    run, result = rounds_of(tmp_path)
    (doubt,) = doubts([read(cell) for cell in result["cells"]])
    assert doubt.fix == "record it"
    page = render(run).read_text(encoding="utf-8")
    assert page.count("trained in &lt;train&gt; mode") == 1
    assert "Doubts about the update" in page
