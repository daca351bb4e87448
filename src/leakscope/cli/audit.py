"""`leakscope audit`: simulate a client, defend, attack, score, report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from leakscope.audits.audit import AuditResult, carry_out, name_of
from leakscope.cli import options as o
from leakscope.metrics import METRICS
from leakscope.report.remarks import doubts, worst_round
from leakscope.runs.display import console, marked
from leakscope.settings import ATTACK, CLIENT, RUN

TEXTS = ("client", "attack", "defense")
"""Columns that wrap where a terminal is narrow; numbers do not."""


@o.taking(CLIENT, ATTACK, RUN)
def audit(
    given: o.Given,
    client: Annotated[
        str | None, typer.Argument(metavar="[CLIENT]", help="a client of your own, by file and name: client.py:client")
    ] = None,
    json_: o.Json = False,
) -> None:
    """Simulate a client (or several), defend, attack, score, report: the main job."""
    request = o.request(given, client=client, json=json_)
    cells = request.cells()
    conclude(carry_out(request, cells, name=name_of(cells)), as_json=json_)


def conclude(result: AuditResult, *, as_json: bool) -> None:
    """The table, the verdict and the path of the report; or one JSON document."""
    if as_json:
        print(json.dumps(dict(result.result)))
    else:
        console.print(table_of(result))
        for error in errors_of(result):
            console.print(marked("failed", "red", error))
        console.print(marked(result.level.upper(), "bold", f" {result.verdict}"))
        if worst := worst_round(result.records):
            console.print(worst)
        for doubt in doubts(result.records):
            console.print(marked("warning", "yellow", doubt))
        if result.picture.exists():
            console.print(f"picture  {result.picture}")
        console.print(f"report   {result.report}")
    if not result.complete:
        console.print("interrupted: the same command goes on from here")
        raise typer.Exit(130)
    if result.result["summary"]["failed"]:
        raise typer.Exit(3)


def errors_of(result: AuditResult) -> list[str]:
    """Why cells failed, each reason once; of a traceback the first line, the rest is in cell.json."""
    failed = (cell for cell in result.records if cell.status == "failed")
    said = (cell.error if cell.refused else cell.error.partition("\n")[0] for cell in failed)
    return list(dict.fromkeys(said))


def table_of(result: AuditResult) -> Table:
    """One row per cell: scores next to what an attacker would score who knows nothing. It fits into 80 columns."""
    with_accuracy = any(cell.accuracy.defended is not None for cell in result.records)
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for heading in TEXTS:
        table.add_column(heading, min_width=8, overflow="fold")
    for heading in [heading for heading, *_ in _scores()] + ["accuracy"] * with_accuracy + ["seconds"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in result.records:
        scores = [_number(getattr(cell, part).get(name), digits) for _, part, name, digits in _scores()]
        accuracy = [_number(cell.accuracy.defended, 3)] * with_accuracy
        who = " ".join((cell.identity.who, *cell.identity.when))
        ended = "" if cell.status == "finished" else f": {cell.status}"
        table.add_row(f"{who}{ended}", cell.attack, cell.defense, *scores, *accuracy, _number(cell.seconds, 0))
    return table


def _scores() -> Iterator[tuple[str, str, str, int]]:
    """(heading, part of the cell, key in it, digits) of each column of scores."""
    for name, metric in METRICS.items():
        if "terminal" in metric.tables:
            yield f"{metric.label} {metric.unit}".strip().replace(" ", "\n"), "metrics", name, metric.digits
            if metric.beside_guess:
                yield "knowing\nnothing", "baseline", name, metric.digits


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
