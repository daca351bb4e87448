"""What lies in results/ stays the answer to the cells it was made for: its keys, and what takes it over."""

import json
from pathlib import Path

import pytest

from leakscope.paper.results import cell_of, read_results, same, take_over
from leakscope.runs.store import Run

RESULTS = Path(__file__).parents[2] / "results"
ROWS = read_results(RESULTS)
KEPT = 263
"""Distinct rows when this test was written. Results are added, never lost."""


def test_every_row_still_has_the_key_of_its_cell():
    moved = {row["key"]: f"{row['source']}: {cell_of(row)}" for row in ROWS if cell_of(row).key != row["key"]}
    assert not moved, (
        "these results would be computed again: a field that is added to a cell must be left out of the key at its "
        "default, and a revision counts from the change on that it stands for"
    )
    assert len(ROWS) >= KEPT


def test_every_row_is_still_taken_over(tmp_path):
    stale = {row["key"]: f"{row['source']}: {cell_of(row)}" for row in ROWS if not same(row, cell_of(row))}
    assert not stale, "a default of their recipe means another value now"
    cells = [cell_of(row) for row in ROWS]
    run = Run.open(tmp_path / "run", cells, command="test")
    assert sorted(take_over(run, cells, ROWS)) == sorted(row["key"] for row in ROWS)
    one = json.loads((run.place(ROWS[0]["key"]) / "cell.json").read_text())
    assert one["taken_over"] == {"file": ROWS[0]["source"], "commit": ROWS[0]["commit"]}
    assert one["taken_over"]["commit"]


@pytest.mark.parametrize("change", [{"n": 49}, {"attack": "dlg"}, {"settings": {"tv": 99.0}}, {"defense": "quantize"}])
def test_another_cell_has_another_key(change):
    row = next(row for row in ROWS if row["attack"] == "nl-sme" and not row["cell"].get("settings"))
    other = {**row, "cell": {**row["cell"], **change}}
    assert cell_of(other).key != row["key"]
    assert not same(row, cell_of(other))
