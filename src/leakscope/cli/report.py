"""`leakscope report`, `figure` and `serve`: what a run folder shows, again at any time."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from leakscope.errors import InputError, Problem
from leakscope.report import render
from leakscope.report.figures import draw
from leakscope.runs.display import console

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]


def report(
    run: RunFolder,
    redact: Annotated[bool, typer.Option("--redact", help="pixelate originals and reconstructions")] = False,
) -> None:
    """Write RUN/index.html from the run folder alone."""
    _require_folder(run)
    console.print(f"report   {render(run, redact=redact)}")


def figure(
    run: RunFolder,
    kind: Annotated[str, typer.Option("--kind", help="grid | convergence | tradeoff | heatmap")] = "grid",
    out: Annotated[Path, typer.Option("-o", "--out", help="an svg, pdf or png file")] = Path("figure.svg"),
) -> None:
    """Draw a figure for a paper."""
    _require_folder(run)
    console.print(f"figure   {draw(run, kind, out)}")


def serve(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="a folder of run folders")] = Path("runs"),
    port: Annotated[int, typer.Option("--port", help="0 takes a free one")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
) -> None:
    """Live dashboard on loopback."""
    if importlib.util.find_spec("uvicorn") is None or importlib.util.find_spec("starlette") is None:
        raise InputError(Problem("the dashboard needs starlette and uvicorn", fix="pip install 'leakscope[web]'"))
    from leakscope.web import serve as serve_runs

    serve_runs(runs, port=port, open_browser=open_browser)


def _require_folder(run: Path) -> None:
    if not run.is_dir():
        raise InputError(Problem(f"there is no run folder {run}", fix="give the --out of an audit"))
