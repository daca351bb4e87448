"""The attack x defense table puts together what differs in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.report.matrix import SHADES, matrices
from leakscope.report.reading import read_run
from sample_run import write_run


def test_one_table_over_both_clients(matrix_run: Path) -> None:
    run = read_run(matrix_run)
    (table,) = matrices(run.cells)
    assert table.setting == ""
    assert table.attacks == ("ig", "sme", "nl-sme")
    assert table.rows[0].defense == "none"
    entry = table.rows[0].entries[2]
    assert entry is not None
    own = [c for c in run.cells if (c.attack, c.defense) == ("nl-sme", "none")]
    assert entry.clients == 2
    assert entry.images == 20
    assert entry.identified == sum(sum(c.each("identified")) for c in own)
    assert entry.gain == pytest.approx(sum(c.gain for c in own) / 2)
    assert entry.worst_key in {c.key for c in own}


def test_accuracy_cost_stands_beside_leakage(matrix_run: Path) -> None:
    (table,) = matrices(read_run(matrix_run).cells)
    losses = {row.defense: row.loss for row in table.rows}
    assert table.has_accuracy
    assert losses["gaussian:std=0.1"] == pytest.approx(0.181)
    assert losses["dpsgd:epsilon=1"] is None
    guarantees = {row.defense: str(row.guarantee) for row in table.rows if row.guarantee}
    assert guarantees == {"dpsgd:epsilon=1": "epsilon 0.848 accounted, 1 nominal"}


def test_other_settings_get_their_own_table_named_by_the_difference(tmp_path: Path) -> None:
    cells = [read_run(write_run(tmp_path / str(n), n=n)).cells[0] for n in (4, 8)]
    assert [table.setting for table in matrices(cells)] == ["4 images", "8 images"]


def test_unscored_cells_leave_their_place_empty(tmp_path: Path) -> None:
    (table,) = matrices(read_run(write_run(tmp_path / "x", n=4, truth=False)).cells)
    assert table.rows[0].entries == (None,)
    assert table.rows[0].level == "unknown"


def test_shades_span_the_scale(matrix_run: Path) -> None:
    (table,) = matrices(read_run(matrix_run).cells)
    shades = [entry.shade for row in table.rows for entry in row.entries if entry]
    assert min(shades) < max(shades) == SHADES - 1
    assert all(0 <= shade < SHADES for shade in shades)


def test_no_cells_no_table() -> None:
    assert matrices([]) == ()
