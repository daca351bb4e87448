"""A run folder as a value: what result.json says, or, while the run goes on, what its cells say so far.

Everything here is read from files that may come from elsewhere: keys are checked before they become paths,
numbers are checked before they are shown, and a part that cannot be read is said, not guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from leakscope.errors import InputError, Problem
from leakscope.files import read_object
from leakscope.verdict.levels import Cell, Level, Verdict, find, is_scored, judge, severity

Images = NDArray[np.float32]
"""(N, C, H, W) in [0, 1]."""

SAFE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SCHEMA = 1
ENDED = ("finished", "stopped early", "failed")
PARTS = (
    *("client", "knowledge", "matching", "metrics", "baseline", "per_image"),
    *("intervals", "missing", "accuracy", "notes"),
)
CLIENT = ("n", "epochs", "batch_size", "lr", "seed", "mode", "writer")
"""Facts of the client that a plan has beside the others."""
TEXTS = ("dataset", "model", "attack", "attack_repr", "defense", "w0", "fuse", "status", "error")


@dataclass(frozen=True)
class Pictures:
    """The images of one cell, reconstructions in the originals' order; None for what is not known."""

    originals: Images | None
    reconstructions: Images | None
    baseline: NDArray[np.float32] | None
    """(C, H, W): what an attacker without the update would show."""


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path
    command: str
    created: str
    versions: Mapping[str, str]
    cells: tuple[Cell, ...]
    planned: tuple[Cell, ...]
    """The cells the run set out to compute; empty where no plan was kept."""
    summary: Mapping[str, Any]
    digest: str
    """SHA-256 of result.json, empty where there is none yet."""
    unreadable: tuple[str, ...] = ()
    """Cells whose file is broken."""

    @property
    def finished(self) -> bool:
        """Whether every planned cell has ended; an interrupted run has a result.json too."""
        ended = {cell["key"] for cell in self.cells if cell["status"] in ENDED}
        return bool(self.digest) and ended >= {cell["key"] for cell in self.planned}

    @cached_property
    def verdict(self) -> Verdict:
        """As the run recorded it; judged here where it has not ended yet."""
        fresh = judge(self.cells)
        if not self.summary.get("verdict"):
            return fresh
        level: Level = self.summary["level"] if self.summary.get("level") in LEVEL_NAMES else fresh.level
        return Verdict(level, str(self.summary["verdict"]), fresh.reasons, self.summary.get("worst", fresh.worst_key))

    @property
    def worst(self) -> Cell | None:
        """The cell that set the verdict."""
        return next((cell for cell in self.cells if cell["key"] == self.verdict.worst_key), None)

    def pictures(self, key: str) -> Pictures:
        """The images of one cell."""
        return read_pictures(self.path / "cells" / check_key(key) / "images.safetensors")


LEVEL_NAMES: frozenset[Level] = frozenset({"unknown", "none", "low", "medium", "high"})


def read_run(path: Path) -> Run:
    """Read a run folder, ended or not.

    A folder without a single cell, or with a result.json that is no result, is an InputError.
    """
    plan = read_object(path / "plan.json") if (path / "plan.json").is_file() else {}
    planned = tuple(cell for cell in _entries(plan, "cells") if has_key(cell))
    if (path / "result.json").is_file():
        result = read_object(path / "result.json")
        _check_schema(path, result)
        cells = tuple(cell for cell in _entries(result, "cells") if has_key(cell))
        digest = hashlib.sha256((path / "result.json").read_bytes()).hexdigest()
        return _run(path, result, cells=cells, planned=planned or cells, digest=digest, unreadable=())
    if not (path / "cells").is_dir() and not plan:
        raise InputError(
            Problem(
                f"{path} is no run folder: it has neither result.json nor cells/",
                fix="give the folder that `leakscope audit --out` wrote",
            )
        )
    finished, unreadable = _finished_cells(path, planned)
    return _run(path, plan, cells=finished, planned=planned, digest="", unreadable=unreadable)


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


def has_key(cell: Cell) -> bool:
    return isinstance(cell.get("key"), str) and SAFE_KEY.fullmatch(cell["key"]) is not None


def _run(path: Path, source: dict[str, Any], **parts: Any) -> Run:
    versions = source.get("versions")
    return Run(
        path=path,
        command=str(source.get("command") or ""),
        created=str(source.get("created") or ""),
        versions={str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {},
        summary=source["summary"] if isinstance(source.get("summary"), dict) else {},
        **parts,
    )


def _entries(source: dict[str, Any], name: str) -> list[Cell]:
    values = source.get(name)
    found = [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    return [tidy(cell) for cell in found]


def tidy(cell: Mapping[str, Any]) -> Cell:
    """A cell in which every part has the type the contract gives it, whatever the file held."""
    parts = {name: cell[name] if isinstance(cell.get(name), dict) else {} for name in PARTS}
    parts["client"] = parts["client"] or {name: cell[name] for name in CLIENT if name in cell}
    texts = {name: "" if cell.get(name) is None else str(cell[name]) for name in TEXTS}
    lists = {name: values for name, values in parts["per_image"].items() if isinstance(values, list) and values}
    history = cell.get("history")
    return {
        **cell,
        **parts,
        **texts,
        "defense": texts["defense"] or "none",
        "per_image": lists,
        "history": [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else [],
    }


def _finished_cells(path: Path, planned: tuple[Cell, ...]) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The cells that have ended, in the plan's order, and the keys of those that cannot be read."""
    folders = {folder.parent.name for folder in (path / "cells").glob("*/cell.json")}
    order = [cell["key"] for cell in planned if cell["key"] in folders]
    cells, unreadable = [], []
    for key in (*order, *sorted(folders - set(order))):
        try:
            cell = read_object(path / "cells" / check_key(key) / "cell.json")
        except InputError:
            unreadable.append(key)
            continue
        cells.append({**tidy(cell), "key": key})
    return tuple(cells), tuple(unreadable)


def _check_schema(path: Path, result: dict[str, Any]) -> None:
    version = result.get("schema_version")
    if version != SCHEMA or not isinstance(result.get("cells"), list):
        raise InputError(
            Problem(
                f"{path / 'result.json'} has schema_version {version!r}, this leakscope reads {SCHEMA}",
                fix="render it with the leakscope that wrote it, or run the audit again",
            )
        )


def _images(values: NDArray[Any] | None, *, dimensions: int) -> Images | None:
    if values is None or values.ndim != dimensions or values.size == 0:
        return None
    return np.clip(np.nan_to_num(values.astype(np.float32), nan=0.0), 0.0, 1.0)


def by_severity(cells: tuple[Cell, ...]) -> list[Cell]:
    """Worst cell first; cells without evidence last."""
    ranks = {cell["key"]: find(cell).rank if is_scored(cell) else (severity("unknown"), 0.0, 0.0) for cell in cells}
    return sorted(cells, key=lambda cell: ranks[cell["key"]], reverse=True)
