"""Two runs side by side: the same client with the same client, and what was changed between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakscope.report.reading import Reading, read_run
from leakscope.web.compare import pair
from sample_run import write_run


def run_of(folder: Path, *clients: dict[str, Any], **more: Any) -> Reading:
    """A run with a cell for each of these clients, all else alike."""
    write_run(folder, n=3)
    result = json.loads((folder / "result.json").read_text())
    (first,) = result["cells"]
    result["cells"] = [
        {**first, "key": f"{folder.name}{place}", "client": {**first["client"], **facts}, **more}
        for place, facts in enumerate(clients)
    ]
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "plan.json").unlink()
    return read_run(folder)


def shown(pairs: list[Any]) -> list[tuple[str, bool, bool]]:
    return [(one.title, one.left is not None, one.right is not None) for one in pairs]


def test_two_writers_with_one_seed_are_two_clients(tmp_path: Path) -> None:
    left = run_of(tmp_path / "a", {"writer": "40"}, {"writer": "42"}, dataset="femnist")
    right = run_of(tmp_path / "b", {"writer": "42"}, {"writer": "47"}, dataset="femnist")
    assert shown(pair(left, right)) == [
        ("nl-sme · undefended · femnist writer 42 seed 0", True, True),
        ("nl-sme · undefended · femnist writer 40 seed 0", True, False),
        ("nl-sme · undefended · femnist writer 47 seed 0", False, True),
    ]


def test_what_is_the_same_throughout_a_run_is_the_change(tmp_path: Path) -> None:
    left = run_of(tmp_path / "a", {"seed": 0}, {"seed": 1}, model="cnn-cifar", iterations=300)
    right = run_of(tmp_path / "b", {"seed": 0}, {"seed": 1}, model="resnet8", iterations=600)
    assert [(left, right) for _, left, right in shown(pair(left, right))] == [(True, True)] * 2


def test_what_tells_cells_of_a_run_apart_has_to_agree(tmp_path: Path) -> None:
    left = run_of(tmp_path / "a", {"lr": 0.1}, {"lr": 0.2})
    right = run_of(tmp_path / "b", {"lr": 0.2}, {"lr": 0.3})
    assert shown(pair(left, right)) == [
        ("nl-sme · undefended · photos seed 0 · lr 0.2", True, True),
        ("nl-sme · undefended · photos seed 0 · lr 0.1", True, False),
        ("nl-sme · undefended · photos seed 0 · lr 0.3", False, True),
    ]


def test_cells_that_nothing_tells_apart_are_paired_by_their_keys(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", {}, {})
    assert [(left, right) for _, left, right in shown(pair(run, run))] == [(True, True)] * 2
