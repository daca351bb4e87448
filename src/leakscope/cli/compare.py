"""`leakscope compare`: attacks x defenses on the same clients, leakage next to what a defense costs."""

from __future__ import annotations

from leakscope.audits.audit import carry_out, name_of
from leakscope.cli import options as o
from leakscope.cli.audit import conclude
from leakscope.errors import InputError
from leakscope.report.figures import draw
from leakscope.runs.display import console, marked
from leakscope.settings import ATTACK, CLIENT, RUN

DEFENSES = ("none", "clip:bound=1", "sparsify:rate=0.9", "gaussian:std=0.1", "quantize:bits=4")


@o.taking(CLIENT, ATTACK, RUN, defenses=DEFENSES, rounds=5)
def compare(given: o.Given, json_: o.Json = False) -> None:
    """Attacks x defenses on the same clients, leakage next to accuracy cost, in one table and one picture."""
    request = o.request(given, json=json_)
    cells = request.cells()
    result = carry_out(request, cells, name=name_of(cells, "compare"))
    try:
        picture = draw(result.folder, "tradeoff", result.folder / "tradeoff.png")
        console.print(f"trade-off {picture}")
    except InputError as error:  # nothing to draw: every cell failed, or none could be scored
        console.print(marked("no trade-off", "yellow", error))
    conclude(result, as_json=json_)
