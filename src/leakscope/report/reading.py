"""A run folder as a value: what result.json says, or, while the run goes on, what its cells say so far.

Everything here is read from files that may come from elsewhere: keys are checked before they become paths,
numbers are checked before they are shown, and a part that cannot be read is said, not guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from leakscope.cells.identity import titles
from leakscope.cells.record import SAFE_KEY, Record, plain
from leakscope.errors import InputError, Problem
from leakscope.files import read_object
from leakscope.verdict.levels import LEVELS, Level, Verdict, find, is_scored, judge, severity
from leakscope.verdict.result import Result, Summary

Images = NDArray[np.float32]
"""(N, C, H, W) in [0, 1]."""

MOST_FAULTS = 20


@dataclass(frozen=True)
class Pictures:
    """The images of one cell, reconstructions in the originals' order; None for what is not known."""

    originals: Images | None
    reconstructions: Images | None
    baseline: NDArray[np.float32] | None
    """(C, H, W): what an attacker without the update would show."""


@dataclass(frozen=True)
class Reading:
    """One run folder, as far as it can be read."""

    path: Path
    command: str
    created: str
    versions: Mapping[str, str]
    cells: tuple[Record, ...]
    planned: tuple[Record, ...]
    """The cells the run set out to compute; empty where no plan was kept."""
    summary: Summary
    digest: str
    """SHA-256 of result.json, empty where there is none yet."""
    faults: tuple[str, ...] = ()
    """What could not be read, by file and field."""

    @property
    def finished(self) -> bool:
        """Whether every planned cell has ended; an interrupted run has a result.json too."""
        ended = {cell.key for cell in self.cells if cell.ended}
        return bool(self.digest) and ended >= {cell.key for cell in self.planned}

    @cached_property
    def verdict(self) -> Verdict:
        """As the run recorded it; judged here where it has not ended yet."""
        fresh, said = judge(self.cells), self.summary
        if not said.verdict:
            return fresh
        level: Level = said.level if said.level in ("unknown", *LEVELS) else fresh.level
        return Verdict(level, said.verdict, fresh.reasons, said.worst or fresh.worst_key)

    @property
    def worst(self) -> Record | None:
        """The cell that set the verdict."""
        return next((cell for cell in self.cells if cell.key == self.verdict.worst_key), None)

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """key -> what people call the cell, and no other of this run."""
        planned = {cell.key: cell.identity for cell in self.planned}
        return titles(list({**planned, **{cell.key: cell.identity for cell in self.cells}}.values()))

    def pictures(self, key: str) -> Pictures:
        """The images of one cell."""
        return read_pictures(self.path / "cells" / check_key(key) / "images.safetensors")


def read_run(path: Path) -> Reading:
    """Read a run folder, ended or not.

    A folder without a single cell, or with a result.json that is no result, is an InputError.
    """
    plan = read_object(path / "plan.json") if (path / "plan.json").is_file() else {}
    planned = _planned(plan)
    if (path / "result.json").is_file():
        document = read_object(path / "result.json")
        result = Result.of(document, place=str(path / "result.json"))
        digest = hashlib.sha256((path / "result.json").read_bytes()).hexdigest()
        return _reading(path, document, result, planned=planned or result.records, digest=digest)
    if not (path / "cells").is_dir() and not plan:
        raise InputError(
            Problem(
                f"{path} is no run folder: it has neither result.json nor cells/",
                fix="give the folder that `leakscope audit --out` wrote",
            )
        )
    return _reading(path, plan, _so_far(path, planned), planned=planned, digest="")


def read_pictures(path: Path) -> Pictures:
    """images.safetensors -> Pictures; a missing file is an empty answer, a broken one an InputError."""
    if not path.is_file():
        return Pictures(None, None, None)
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(Problem(f"cannot read {path}: {error}", fix="run this cell again")) from error
    return Pictures(
        _images(arrays.get("originals"), dimensions=4),
        _images(arrays.get("reconstructions"), dimensions=4),
        _images(arrays.get("baseline"), dimensions=3),
    )


def check_key(key: str) -> str:
    """A cell's key as a folder name: no separators, no parent folders."""
    if not SAFE_KEY.fullmatch(key):
        raise InputError(Problem(f"{key!r} is not the name of a cell"))
    return key


def _reading(
    path: Path, source: Mapping[str, Any], result: Result, *, planned: tuple[Record, ...], digest: str
) -> Reading:
    told: Any = plain(source.get("versions"))
    more = [f"and {len(result.faults) - MOST_FAULTS} more"] if len(result.faults) > MOST_FAULTS else []
    return Reading(
        path=path,
        command=plain(str(source.get("command") or "")),
        created=plain(str(source.get("created") or "")),
        versions={name: str(value) for name, value in told.items()} if isinstance(told, dict) else {},
        cells=result.records,
        planned=planned,
        summary=result.summary,
        digest=digest,
        faults=(*result.faults[:MOST_FAULTS], *more),
    )


def _planned(plan: Mapping[str, Any]) -> tuple[Record, ...]:
    entries = plan.get("cells")
    found = [Record.planned(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return tuple(record for record in found if record.key)


def _so_far(path: Path, planned: tuple[Record, ...]) -> Result:
    """The cells that have ended, in the plan's order."""
    folders = {folder.parent.name for folder in (path / "cells").glob("*/cell.json")}
    order = [cell.key for cell in planned if cell.key in folders]
    found: list[Record] = []
    faults: list[str] = []
    for key in (*order, *sorted(folders - set(order))):
        try:
            record = Record.read(path / "cells" / check_key(key) / "cell.json")
        except InputError:
            faults.append(f"cells/{key}/cell.json cannot be read")
            continue
        found.append(record.model_copy(update={"key": key}))
        faults += record.faults
    return Result(tuple(found), faults=tuple(faults))


def _images(values: NDArray[Any] | None, *, dimensions: int) -> Images | None:
    if values is None or values.ndim != dimensions or values.size == 0:
        return None
    return np.clip(np.nan_to_num(values.astype(np.float32), nan=0.0), 0.0, 1.0)


def by_severity(cells: Sequence[Record]) -> list[Record]:
    """Worst cell first; cells without evidence last."""
    blind = (severity("unknown"), 0.0, 0.0)
    return sorted(cells, key=lambda cell: find(cell).rank if is_scored(cell) else blind, reverse=True)
