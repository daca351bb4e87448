"""`leakscope reproduce`: the paper's tables and figures, reported next to measured."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from leakscope.attacks import ATTACKS
from leakscope.cli import options as o
from leakscope.errors import Problem, refuse, unknown
from leakscope.paper import NAMES
from leakscope.paper.measured import Line
from leakscope.paper.pages import DASH, HEADER, rows_of
from leakscope.paper.reproduce import Reproduction, begin, carry_out, lay_out
from leakscope.runs.display import console, showing
from leakscope.runs.executors import choose_executor
from leakscope.runs.places import Places
from leakscope.settings import RUN, problems_of


@o.taking(RUN, only=["data_root"])
def reproduce(
    given: o.Given,
    name: Annotated[str, typer.Argument(metavar="NAME", help="table1 ... table12, figure1 ... figure7, theorem1, all")],
    quick: Annotated[bool, typer.Option("--quick", help="a scaled-down grid, to see that everything runs")] = False,
    clients: Annotated[int | None, typer.Option("--clients", help="clients per entry [5, quick 1]")] = None,
    attack: Annotated[list[str] | None, typer.Option("--attack", help="repeatable: only these of the table's")] = None,
    prior: Annotated[
        Path, typer.Option("--prior", help="folder of diffusion priors, one for each data set: PRIOR/femnist")
    ] = Path("priors"),
    results: Annotated[Path, typer.Option("--results", help="finished cells to take over")] = Path("results"),
    json_: o.Json = False,
) -> None:
    """Reproduce a table or figure of the paper, or all: started again it goes on."""
    request = o.request(given, json=json_)
    attacks = attack or []
    refuse([*_problems(name, clients, attacks), *problems_of(request)])
    execute = choose_executor(request.executor, workers=request.workers, ray_address=request.ray_address)
    places = Places(request.data_root, request.weights, priors=prior)
    job = lay_out(name, attacks=attacks, quick=quick, clients=clients, places=places, device=request.device)
    out = request.out or Path("runs") / f"reproduce-{name}{'-quick' if quick else ''}"
    command = shlex.join(["leakscope", *sys.argv[1:]])
    run, todo = begin(job, out, results=results, command=command)
    console.print(f"{len(job.cells)} cells, {len(job.cells) - len(todo)} of them known, {len(job.traces)} trajectories")
    with showing(todo, quiet=request.quiet, workers=request.workers, log=True) as notice:
        done = carry_out(job, run, todo, execute=execute, workers=request.workers, command=command, notice=notice)
    _conclude(done, as_json=json_, code=_exit_code(done, missing=any(one.reasons for one in job.planned)))


def _problems(name: str, clients: int | None, attacks: list[str]) -> Iterator[Problem]:
    if name not in ("all", *NAMES):
        yield unknown("table or figure", name, ("all", *NAMES))
    yield from (unknown("attack", attack, ATTACKS) for attack in attacks if attack not in ATTACKS)
    if clients is not None and clients < 1:
        yield Problem(f"--clients {clients} is not at least 1", fix="--clients 5")


def _exit_code(done: Reproduction, *, missing: bool) -> int:
    """130 interrupted, 2 where cells could not even be planned, 3 where some failed."""
    if not done.complete:
        return 130
    failed = any("failed:" in line["reason"] for target in done.result["targets"] for line in target["lines"])
    return 2 if missing else 3 if failed else 0


def _conclude(done: Reproduction, *, as_json: bool, code: int) -> None:
    if as_json:
        print(json.dumps(dict(done.result)))
    else:
        for target in done.result["targets"]:
            console.print(f"\n{target['title']}", style="bold")
            console.print(_table(target["lines"]))
        if done.result["quick"]:
            console.print(done.result["quick"], style="red")
        console.print(f"page     {done.page}")
    reasons = {line["reason"] for target in done.result["targets"] for line in target["lines"] if line["reason"]}
    for reason in sorted(reasons):
        console.print(f"missing  {reason}", soft_wrap=True)
    if code == 130:
        console.print("interrupted: the same command goes on from here")
    if code:
        raise typer.Exit(code)


def _table(lines: list[dict[str, object]]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in HEADER[:-1]:
        table.add_column(column, justify="left" if column in HEADER[:3] else "right")
    known = [Line(**{key: value for key, value in line.items() if key != "difference"}) for line in lines]  # type: ignore[arg-type]
    for row in rows_of(known):
        table.add_row(*(value or DASH for value in row[:-1]))
    return table
