"""An audit: run the cells that a request asks for, and write the result."""

from __future__ import annotations

import base64
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

from leakscope.cells.request import DEFAULT_ATTACK, Request, pick_device, split_settings
from leakscope.cells.spec import Cell
from leakscope.client.own import LocalClient
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.runs.display import showing
from leakscope.runs.executors import Executor, choose_executor
from leakscope.runs.pictures import draw_worst
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice

__all__ = [
    "DEFAULT_ATTACK",
    "AuditResult",
    "Request",
    "audit",
    "finish",
    "pick_device",
    "run_cells",
    "split_settings",
]


@dataclass(frozen=True)
class AuditResult:
    """What an audit found; everything in it can be read again from the folder."""

    folder: Path
    result: Mapping[str, Any]
    complete: bool = True

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        return list(self.result["cells"])

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


def audit(*, out: str | os.PathLike[str], workers: int = 1, quiet: bool = False, **options: Any) -> AuditResult:
    """Audit a client from Python; the options are those of `Request`, the same as on the command line.

    On a terminal it shows how far it is and how long it takes, unless `quiet`.

    >>> audit(dataset="photos", attacks=["sme"], n=4, iterations=100, out="runs/mine")  # doctest: +SKIP
    >>> audit(client=LocalClient(...), out="runs/own")  # doctest: +SKIP
    """
    known = {entry.name for entry in fields(Request)}
    refuse(unknown("option", name, known) for name in options if name not in known)
    request = Request(**options)
    command = "leakscope.audit(" + ", ".join(f"{key}={value!r}" for key, value in options.items()) + ")"
    if workers > 1 and isinstance(request.client, LocalClient):
        request.client.require_portable()
    execute, cells = choose_executor(workers=workers), request.cells()
    with showing(cells, quiet=quiet, workers=workers) as notice:
        return run_cells(cells, Path(out), request, execute=execute, command=command, notice=notice)


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
    draw_worst(run, result)
    render(run.folder)
    return result
