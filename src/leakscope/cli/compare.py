"""`leakscope compare`: attacks x defenses on the same clients, leakage next to what a defense costs."""

from __future__ import annotations

from typing import Annotated

import typer

from leakscope.cli import options as o
from leakscope.cli.audit import carry_out, conclude, key_of
from leakscope.errors import InputError, Problem, refuse
from leakscope.report.figures import draw
from leakscope.runs.display import console, marked

DEFENSES = ("none", "clip:bound=1", "sparsify:rate=0.9", "gaussian:std=0.1", "quantize:bits=4")


@o.taking(o.CLIENT_OPTIONS, o.ATTACK_OPTIONS, o.RUN_OPTIONS)
def compare(
    given: o.Given,
    rounds: Annotated[int, typer.Option("--rounds", help="FedAvg rounds before test accuracy is measured")] = 5,
    federation: Annotated[int, typer.Option("--federation", help="clients in each of those rounds")] = 5,
) -> None:
    """Attacks x defenses on the same clients, leakage next to accuracy cost, in one table and one picture."""
    counts = (("--rounds", rounds), ("--federation", federation))
    refuse(Problem(f"{name} {value} is not at least 1", fix=f"{name} 5") for name, value in counts if value < 1)
    request = o.request(given, defenses=given["defenses"] or DEFENSES, rounds=rounds, federation=federation)
    cells = request.cells(also=o.place_problems(given))
    result = carry_out(cells, request, given, name=f"compare-{key_of(cells)[:8]}")
    try:
        picture = draw(result.folder, "tradeoff", result.folder / "tradeoff.png")
        console.print(f"trade-off {picture}")
    except InputError as error:  # nothing to draw: every cell failed, or none could be scored
        console.print(marked("no trade-off", "yellow", error))
    conclude(result, as_json=given["json"])
