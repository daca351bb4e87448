"""`leakscope gate`: exit code 0 where a run leaks no more than is allowed, 1 where it does."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli import options as o
from leakscope.runs.display import console, marked
from leakscope.verdict.gate import read_result, rule
from leakscope.verdict.junit import write_junit
from leakscope.verdict.sarif import write_sarif


def gate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a finished run folder")],
    max_level: Annotated[str, typer.Option("--max-level", help="none | low | medium | high")] = "low",
    junit: Annotated[Path | None, typer.Option("--junit", help="JUnit file [RUN/junit.xml]")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="also write SARIF 2.1.0 for code scanning")] = None,
    json_: o.Json = False,
) -> None:
    """Pass or fail a deployment by what a run leaked."""
    result = read_result(run)
    ruling = rule(result, max_level=max_level)
    write_junit(junit or run / "junit.xml", result, max_level=max_level)
    if sarif is not None:
        write_sarif(sarif, result, max_level=max_level)
    if json_:
        print(json.dumps(asdict(ruling)))
    word, colour = ("PASS", "green") if ruling.passed else ("FAIL", "red")
    console.print(marked(word, colour, f" {ruling.reason}"))
    for note in ruling.notes:
        console.print(f"      {note}", style="dim")
    raise typer.Exit(0 if ruling.passed else 1)
