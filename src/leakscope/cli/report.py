"""`leakscope report`: render a run folder again, at any time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli.display import console
from leakscope.errors import InputError, Problem
from leakscope.report import render


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")],
    redact: Annotated[bool, typer.Option("--redact", help="pixelate originals and reconstructions")] = False,
) -> None:
    """Write RUN/index.html from the run folder alone."""
    if not run.is_dir():
        raise InputError(Problem(f"there is no run folder {run}", fix="give the --out of an audit"))
    console.print(f"report   {render(run, redact=redact)}", highlight=False)
