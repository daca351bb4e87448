"""results/*.json: what was really run, without pictures; read for the docs, and taken over instead of running again."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakscope.attacks import ATTACKS
from leakscope.cells.record import DONE, Record
from leakscope.cells.spec import PLACES, Cell
from leakscope.files import commit, write_json
from leakscope.metrics import METRICS
from leakscope.runs.store import Run

Row = dict[str, Any]
KEPT = ("attack", "defense", "dataset", "model", "client", "fuse", "knowledge", "settings", "matching", "iterations")
COST = ("seconds", "peak_memory_mb", "notes")
NOT_ITS_OWN = {*PLACES, "data_fingerprint", "device", "prior_fingerprint", "auxiliary"}
"""Facts of a cell that the docs cannot know (data and priors are not there) or that do not change its meaning."""


def brief(record: Record, cell: Cell) -> Row:
    """What of a cell goes into results/: what it was, scores, curve, time and memory."""
    said = record.as_json()
    row: Row = {name: said.get(name) for name in KEPT} | {"key": cell.key, "status": record.status}
    row["cell"] = cell.flat(but=PLACES, brief=True)  # places are those of this machine
    row["parameters"] = parameters(cell)
    kept = [name for name, metric in METRICS.items() if "results" in metric.tables]
    row |= {part: {name: said[part].get(name) for name in kept} for part in ("metrics", "baseline")}
    points = ((at.get("seconds"), at.get("psnr")) for at in record.history)
    row["curve"] = [[round(s, 1), round(psnr, 3)] for s, psnr in points if s is not None and psnr is not None]
    return row | {name: said.get(name) for name in COST}


def parameters(cell: Cell) -> dict[str, Any]:
    """Every parameter of the recipe as this cell ran it: defaults may change, and with them what a result means."""
    usual = inspect.signature(ATTACKS[cell.attack.attack].recipe).parameters.values()
    return {entry.name: entry.default for entry in usual} | cell.attack.settings


def write_results(
    path: Path,
    rows: Sequence[Row],
    *,
    command: str,
    versions: Mapping[str, str],
    trajectories: Sequence[Mapping[str, Any]] = (),
) -> None:
    """One results file, with the state of the code that made it."""
    state = {"command": command, "commit": commit(), "versions": dict(versions)}
    more = {"trajectories": [dict(one) for one in trajectories]} if trajectories else {}
    write_json(path, {**state, "cells": list(rows), **more})


def read_results(folder: Path) -> list[Row]:
    """Every finished cell of every file, each with the file and the commit it comes from; later files win."""
    rows: dict[str, Row] = {}
    for path in sorted(folder.glob("*.json")):
        rows |= {row["key"]: {**row, "source": path.name} for row in read_file(path)}
    return list(rows.values())


def read_file(path: Path) -> list[Row]:
    """The finished cells of one file, each with the commit that made it, which may be older than the file's."""
    result = json.loads(path.read_text(encoding="utf-8"))
    made = {"commit": result.get("commit", "")}
    return [{**made, **row} for row in result.get("cells", []) if row.get("status") in DONE]


def cell_of(row: Row) -> Cell:
    """The cell that a row is the result of; rows of before `cell` was kept tell the same in other words."""
    if "cell" in row:
        return Cell.read(row["cell"])
    client, asked = row["client"], row["matching"]["why"] == "asked for"
    facts = {name: row[name] for name in ("dataset", "model", "attack", "settings", "defense", "fuse", "iterations")}
    facts |= {name: client[name] for name in ("n", "epochs", "batch_size", "lr", "mode", "seed")}
    facts |= {"data_fingerprint": "", "writer": client.get("writer"), "labels": row["knowledge"]["labels"]}
    return Cell.read({**facts, "matching": row["matching"]["chosen"] if asked else "auto"})


def same(row: Row, cell: Cell) -> bool:
    """Whether a row answers a cell: the same settings, and no parameter of the recipe that means another value now."""
    theirs, ours = (facts(each) for each in (cell_of(row), cell))
    then, now = row.get("parameters", {}), parameters(cell)
    return theirs == ours and all(then[name] == now[name] for name in then.keys() & now.keys())


def facts(cell: Cell) -> dict[str, Any]:
    """What a cell is, apart from where it runs and which bytes the data is made of."""
    return cell.flat(but=NOT_ITS_OWN, brief=True)


def take_over(run: Run, cells: Iterable[Cell], rows: Sequence[Row]) -> list[str]:
    """Put finished cells of results/ into the run folder where key and settings agree; their keys."""
    known, taken = {row["key"]: row for row in rows}, []
    for cell in cells:
        row = known.get(cell.key)
        if row is None or run.result(cell.key) is not None or not same(row, cell):
            continue
        write_json(run.place(cell.key) / "cell.json", Record.taken_over(row, cell).as_json())
        taken.append(cell.key)
    return taken
