"""`leakscope tune`: search a recipe's parameters on some clients, report on others."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.audits.tune import Range, Study, tune
from leakscope.cli import options as o
from leakscope.runs.display import console, showing
from leakscope.runs.executors import choose_executor
from leakscope.settings import ATTACK, CLIENT, RUN

CHOSEN = ("clients", "seed", "writer", "attacks", "settings")
"""What a study chooses itself."""


@o.taking(CLIENT, ATTACK, RUN, but=CHOSEN)
def tune_(
    given: o.Given,
    attack: Annotated[str, typer.Argument(help="see `leakscope list attacks`")],
    search: Annotated[
        list[str], typer.Option("--search", help="repeatable: lambda_p=1e-4:1e-1:log, tv=0:0.02, schedule=paper|cosine")
    ],
    tune_on: Annotated[str, typer.Option("--tune-on", help="clients to search on: seeds, or writers of --dataset")],
    report_on: Annotated[str, typer.Option("--report-on", help="other clients, for the report alone")] = "",
    trials: Annotated[int, typer.Option("--trials", help="parameter sets to try, the defaults first")] = 20,
    metric: Annotated[str, typer.Option("--metric", help="what is made better; see `leakscope list metrics`")] = "psnr",
    seed: Annotated[int, typer.Option("--seed", help="of the search")] = 0,
    json_: o.Json = False,
) -> None:
    """Search an attack's parameters on some clients, and report on others: started again it goes on."""
    request = o.request(given, json=json_)
    study = Study(
        attack=attack,
        ranges=tuple(Range.parse(text) for text in search),
        request=request,
        tune_on=_names(tune_on),
        report_on=_names(report_on),
        trials=trials,
        metric=metric,
        seed=seed,
    )
    execute = choose_executor(request.executor, workers=request.workers, ray_address=request.ray_address)
    out = request.out or Path("runs") / f"tune-{attack}"
    with showing([], quiet=request.quiet, log=True) as notice:
        command = shlex.join(["leakscope", *sys.argv[1:]])
        answer = tune(study, out, execute=execute, command=command, notice=notice)
    _conclude(answer, out, as_json=json_)


def _names(text: str) -> tuple[str, ...]:
    """`25, 27` -> ("25", "27")."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _conclude(answer: dict[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
    else:
        chosen = " ".join(f"--set {answer['attack']}.{name}={value}" for name, value in answer["best"].items())
        console.print(f"best     {chosen or 'none: no trial was scored'}")
        for name, scores in answer["report"].items():
            shown = ", ".join(f"{who}: {_number(value)}" for who, value in scores.items())
            console.print(f"{name:<8} {answer['metric']} on clients kept for the report: {shown}")
        console.print(f"study    {out / 'tune.json'}")
    if not answer["complete"]:
        console.print("interrupted: the same command goes on from here")
        raise typer.Exit(130)


def _number(value: float | None) -> str:
    return "failed" if value is None else f"{value:.3f}"
