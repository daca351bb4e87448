"""The command line: parses, calls, prints. Bad input exits with 2, an interrupted run with 130, failed cells with 3.

A verb is imported when it is called: torch takes seconds, `leakscope --help` should not.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported: a spinning thread slows its neighbours

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from leakscope.errors import InputError, Problem
from leakscope.files import NO_ROOM

VERBS = {
    "audit": ("audit:audit", "Simulate a client (or several), defend, attack, score, report: the main job."),
    "simulate": ("recorded:simulate", "Train a client and write its update file, and the private truth file."),
    "attack": ("recorded:attack", "Attack recorded updates; scored only where their truth files are given."),
    "compare": ("compare:compare", "Attacks x defenses on the same clients, leakage next to accuracy cost."),
    "report": ("report:report", "Write RUN/index.html from the run folder alone."),
    "gate": ("gate:gate", "Pass or fail a deployment by what a run leaked."),
    "figure": ("report:figure", "Draw a figure for a paper."),
    "serve": ("report:serve", "Live dashboard on loopback."),
    "reproduce": ("reproduce:reproduce", "Reproduce a table or figure of the paper, or all."),
    "tune": ("tune:tune_", "Search an attack's parameters on some clients, and report on others."),
    "list": ("lists:list_", "What there is: attacks, defenses, data sets, models, metrics."),
    "data": ("data:data", "Which data sets are at hand, and how to get the others."),
    "prior": ("prior:prior", "Learn what images of a kind look like, for attacks that use it."),
    "doctor": ("doctor:doctor", "Check the environment, with advice."),
}
"""verb -> (where it is, what it does in a line)."""


class Verbs(TyperGroup):
    """Knows the name and the line of every verb, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=line) for name, (_, line) in VERBS.items()}

    def get_command(self, ctx: Any, name: str) -> Any:
        return verb(name) if name in VERBS and ctx.meta.get("verb") == name else super().get_command(ctx, name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta["verb"] = args[0]
        return super().resolve_command(ctx, args)


def verb(name: str) -> Any:
    """The command behind a verb."""
    place, line = VERBS[name]
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"leakscope.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, help=line)(found)
    return get_command(alone)


def version(asked: bool) -> None:
    """`leakscope --version`."""
    if asked:
        from leakscope import __version__

        print(f"leakscope {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="leakscope",
    cls=Verbs,
    help="Shows what a federated-learning client gives away with its model update.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def leakscope(
    version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="show the version"),
) -> None:
    """Shows what a federated-learning client gives away with its model update."""


def main() -> None:
    """Run, and turn bad input into a message instead of a traceback."""
    from leakscope.runs.display import console, marked

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
