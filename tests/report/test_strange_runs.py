"""Run folders of strangers: whatever a field holds, the report, the figures and the gate say what they can read."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakscope.errors import InputError
from leakscope.report import render
from leakscope.report.figures import KINDS, draw
from leakscope.report.page import page
from leakscope.report.reading import read_run
from leakscope.verdict.gate import read_result, rule
from leakscope.verdict.junit import write_junit
from leakscope.verdict.sarif import sarif
from leakscope.web.compare import pair
from leakscope.web.folder import RunsFolder
from leakscope.web.progress import Progress
from sample_run import write_run

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        2**70,
        10**300,
        1e308,
        1e99,
        -1e99,
        5e-324,
        float("nan"),
        float("inf"),
        "NaN",
        "",
        "\x00\ud800",
    ),
    *([], {}, [[]], [None], {"": {}}, {"\ud800": 1}, "x" * 10_000, json.loads("[" * 400 + "]" * 400)),
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a JSON value, of lists to the first and the last."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inside:
        if isinstance(value, dict) or step in (0, len(value) - 1):
            yield (*way, step)
            yield from places(part, (*way, step))


def changed(document: dict[str, Any], way: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    document = copy.deepcopy(document)
    inside: Any = document
    for step in way[:-1]:
        inside = inside[step]
    inside[way[-1]] = odd
    return document


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder of two runs, and what the first one's result.json holds; images are small."""
    runs = tmp_path_factory.mktemp("strange")
    write_run(runs / "b", n=2, size=8, rounds=(1,))
    folder = write_run(runs / "a", n=2, size=8, rounds=(1, 2), defenses=("none", "dpsgd:epsilon=1"))
    result = json.loads((folder / "result.json").read_text())
    result["summary"] |= {"cells": 4, "finished": 4}
    for cell in result["cells"]:
        cell |= {"tag": "sent", "combined": 1, "settings": {"lr": 0.5}, "error": ""}
        cell["accuracy"] = {"defended": 0.4, "undefended": 0.5}
        cell["notes"]["preflight"] = [{"kind": "k", "severity": "warning", "found": "f", "why": "w", "fix": "x"}]
        cell["notes"]["clip"] = {"norm": 1.0, "binds": False}
    return folder, result


@pytest.mark.parametrize("seed", range(8))
def test_odd_values_anywhere(seed: int, documents: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, result = documents
    draw_from = random.Random(seed)
    ways = list(places(result))
    for _ in range(10):
        document = result
        for way in draw_from.sample(ways, 2):
            with suppress(KeyError, IndexError, TypeError):  # the first change took away where the second was to be
                document = changed(document, way, draw_from.choice(ODD))
        (folder / "result.json").write_text(json.dumps(document))
        with suppress(InputError):
            look_at(folder, tmp_path)


def look_at(folder: Path, aside: Path) -> None:
    """What people do with a run folder."""
    run = read_run(folder)
    for redact in (False, True):
        page(run, redact=redact).encode()
    pair(run, read_run(folder.parent / "b"))
    runs = RunsFolder(folder.parent)
    json.dumps([runs.overview(name, working=False).as_data() for name in runs.names()]).encode()
    json.dumps(Progress(runs, folder.name).snapshot(working=False)).encode()
    result = read_result(folder)
    rule(result, max_level="low")
    write_junit(aside / "junit.xml", result, max_level="low")
    json.dumps(sarif(result, max_level="low")).encode()


def test_odd_values_in_figures(documents: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, result = documents
    for odd in (1e99, "x"):
        document = copy.deepcopy(result)
        for cell in document["cells"]:
            cell["metrics"]["identified"] = cell["history"][0]["psnr"] = cell["accuracy"]["defended"] = odd
            cell["per_image"]["psnr"] = [odd, odd]
        (folder / "result.json").write_text(json.dumps(document))
        for kind in KINDS:
            with suppress(InputError):
                draw(folder, kind, tmp_path / f"{kind}.svg")


def test_what_is_wrong_is_said_in_the_report(documents: tuple[Path, dict[str, Any]]) -> None:
    folder, result = documents
    (folder / "result.json").write_text(json.dumps(changed(result, ("cells", 1, "metrics", "psnr"), "NaN")))
    said = render(folder).read_text(encoding="utf-8")
    assert "result.json: cells[1].metrics.psnr is no number" in said
    redacted = render(folder, redact=True).read_text(encoding="utf-8")
    assert "1 parts cannot be read" in redacted
    assert "cells[1]" not in redacted


def test_plans_and_cells_of_strangers(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=2, size=8, attacks=("ig", "sme"), finished=False)
    plan = json.loads((folder / "plan.json").read_text())
    cell = sorted(folder.glob("cells/*/cell.json"))[0]
    whole = json.loads(cell.read_text())
    for odd in (None, -1, 1e308, float("nan"), "\x00\ud800", [None], {"": {}}):
        for name in ("cells", "command", "created", "versions"):
            (folder / "plan.json").write_text(json.dumps({**plan, name: odd}))
            page(read_run(folder)).encode()
        (folder / "plan.json").write_text(json.dumps({**plan, "cells": [odd, {"key": "k", "attack": odd, "n": odd}]}))
        page(read_run(folder)).encode()
        for name in ("client", "metrics", "history", "notes", "round", "key", "status", "matching"):
            cell.write_text(json.dumps({**whole, name: odd}))
            page(read_run(folder)).encode()
