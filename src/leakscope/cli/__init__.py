"""The command line: parses, calls, prints. Bad input exits with 2, an interrupted run with 130, failed cells with 3."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported: a spinning thread slows its neighbours

import typer

from leakscope.cli.audit import audit
from leakscope.cli.compare import compare
from leakscope.cli.data import data
from leakscope.cli.doctor import doctor
from leakscope.cli.gate import gate
from leakscope.cli.lists import list_
from leakscope.cli.prior import prior
from leakscope.cli.recorded import attack, simulate
from leakscope.cli.report import figure, report, serve
from leakscope.cli.reproduce import reproduce
from leakscope.cli.tune import tune_
from leakscope.errors import InputError, Problem
from leakscope.files import NO_ROOM
from leakscope.runs.display import console, marked

app = typer.Typer(
    name="leakscope",
    help="Shows what a federated-learning client gives away with its model update.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (audit, simulate, attack, compare, reproduce, report, figure, serve, gate, doctor):
    app.command()(verb)
app.command("list")(list_)
app.command("tune")(tune_)
app.add_typer(data, name="data")
app.add_typer(prior, name="prior")


def main() -> None:
    """Run, and turn bad input into a message instead of a traceback."""
    try:
        app(standalone_mode=True)
    except InputError as error:
        for problem in error.problems:
            console.print(marked("error", "red", problem))
        sys.exit(2)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        said = Problem(f"{error.strerror}: {error.filename}", fix="make room or choose another --out")
        console.print(marked("error", "red", said))
        sys.exit(2)
