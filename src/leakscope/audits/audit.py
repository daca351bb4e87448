"""An audit: run the cells that a request asks for, and write the result."""

from __future__ import annotations

import base64
import hashlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from leakscope.cells.record import Record
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell
from leakscope.client.own import LocalClient
from leakscope.errors import InputError, Problem
from leakscope.runs.display import showing
from leakscope.runs.executors import Executor, choose_executor
from leakscope.runs.pictures import draw_worst
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice
from leakscope.settings import asking
from leakscope.verdict.result import Result


@dataclass(frozen=True)
class AuditResult:
    """What an audit found; everything in it can be read again from the folder."""

    folder: Path
    result: Mapping[str, Any]
    complete: bool = True

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        return list(self.result["cells"])

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The same cells, as values with typed fields."""
        return Result.of(self.result).records

    @property
    def level(self) -> str:
        return str(self.result["summary"]["level"])

    @property
    def verdict(self) -> str:
        return str(self.result["summary"]["verdict"])

    @property
    def report(self) -> Path:
        return self.folder / "index.html"

    @property
    def picture(self) -> Path:
        """The worst cell, most leaked first; not there where nothing was reconstructed."""
        return self.folder / "reconstructions.png"

    def __repr__(self) -> str:
        return f"AuditResult({self.level}: {self.verdict} -> {self.report})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, and private images above what came back of them."""
        shown = base64.b64encode(self.picture.read_bytes()).decode() if self.picture.exists() else ""
        image = f'<img src="data:image/png;base64,{shown}" alt="private images, and what came back">' if shown else ""
        return f"<p><b>{self.level.upper()}</b> {escape(self.verdict)}</p>{image}<p>{escape(str(self.report))}</p>"


@asking(Request)
def audit(request: Request) -> AuditResult:
    """Audit a client from Python; the options are the same as on the command line.

    On a terminal it shows how far it is and how long it takes, unless `quiet`.

    >>> audit(dataset="photos", attacks=["sme"], n=4, iterations=100, out="runs/mine")  # doctest: +SKIP
    >>> audit(client=LocalClient(...), out="runs/own")  # doctest: +SKIP
    """
    if request.workers > 1 and isinstance(request.client, LocalClient):
        request.client.require_portable()
    cells = request.cells()
    return carry_out(request, cells, name=name_of(cells), command=f"leakscope.audit({_said(request)})")


def carry_out(request: Request, cells: list[Cell], *, name: str, command: str | None = None) -> AuditResult:
    """Run the cells where the request says, into its folder or else runs/NAME."""
    execute = choose_executor(request.executor, workers=request.workers, ray_address=request.ray_address)
    with showing(cells, quiet=request.quiet, workers=request.workers) as notice:
        out = request.out or Path("runs") / name
        return run_cells(cells, out, request, execute=execute, command=command, notice=notice)


def name_of(cells: Sequence[Cell], kind: str = "") -> str:
    """A folder's name for these cells: other cells are another run."""
    keys = " ".join(cell.key for cell in cells)
    key = hashlib.sha256(keys.encode()).hexdigest() if len(cells) > 1 else keys
    return f"{kind or cells[0].client.dataset.partition(':')[0]}-{key[:8]}"


def _said(request: Request) -> str:
    """What was asked for beside the defaults, as Python spells it; where the result goes is no part of it."""
    usual = {entry.name: entry.default for entry in fields(Request)} | {"out": request.out}
    asked = ((name, value) for name, value in vars(request).items() if value != usual[name])
    return ", ".join(f"{name}={str(value) if isinstance(value, Path) else value!r}" for name, value in asked)


def run_cells(
    cells: list[Cell],
    out: Path,
    request: Request,
    *,
    execute: Executor,
    command: str | None = None,
    notice: Notice = lambda _: None,
) -> AuditResult:
    """Run what is not done yet, then write result.json, the picture and the report."""
    command = command or shlex.join(["leakscope", *sys.argv[1:]])
    run = Run.open(out, cells, command=command)
    if (before := run.finished()) is not None:
        return AuditResult(out, before)
    todo = [cell for cell in cells if run.result(cell.key) is None]
    own = request.client if isinstance(request.client, LocalClient) else None
    complete = execute(run, todo, Places(request.data_root, request.weights, own), notice=notice)
    refusals = [run.refused(cell.key) for cell in todo]
    if todo and all(refusals):
        raise InputError(*(Problem(str(refusal)) for refusal in dict.fromkeys(refusals)))
    return AuditResult(out, finish(run, cells, command=command), complete)


def finish(run: Run, cells: list[Cell], *, command: str) -> dict[str, Any]:
    """Write result.json from the cells that are there, the picture and the report."""
    from leakscope.report import render  # the report reads run folders only

    result = run.finish(cells, command=command)
    draw_worst(run, result["summary"]["worst"])
    render(run.folder)
    return result
