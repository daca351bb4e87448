"""A gate for a deployment: does a run leak more than is allowed? A reason in one line, and a JUnit file for CI.

The levels and their thresholds are those of `leakscope.verdict`; docs/gate.md tells them to people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from leakscope.errors import InputError, Problem, unknown
from leakscope.runs.atomic import writing
from leakscope.verdict import LEVELS, find, judge, severity


@dataclass(frozen=True)
class Ruling:
    """Whether a run passes, and why."""

    passed: bool
    level: str
    reason: str
    limit: str = "low"
    interval: tuple[float, float] = (0.0, 1.0)
    """95 % Wilson interval of the share of images that the worst cell identified; 0 to 1 says nothing."""
    relative: float | None = None
    """Relative score of its most leaked image: 0 is a guess, 1 the image itself."""
    notes: tuple[str, ...] = ()
    """What the level rests on, and what it does not."""


def rule(result: Mapping[str, Any], *, max_level: str) -> Ruling:
    """Pass where the level is at most `max_level`; a run that shows nothing, or not all it planned, does not pass."""
    if max_level not in LEVELS:
        raise InputError(unknown("--max-level", max_level, LEVELS))
    verdict, summary = judge(result["cells"]), result["summary"]
    worst = next((find(cell) for cell in result["cells"] if cell.get("key") == verdict.worst_key), None)
    facts: dict[str, Any] = {"limit": max_level, "notes": verdict.reasons}
    if worst is not None and verdict.worst_key is not None:
        facts |= {"interval": worst.interval, "relative": worst.relative}
    missing = summary["cells"] - summary["finished"]
    if missing:
        reason = f"{missing} of {summary['cells']} cells did not finish: nothing is shown by them"
        return Ruling(False, verdict.level, reason, **facts)
    if verdict.level == "unknown":
        return Ruling(False, verdict.level, f"{verdict.sentence} No evidence is not a pass", **facts)
    passed = severity(verdict.level) <= severity(max_level)
    relation = "within" if passed else "above"
    reason = f"leakage is {verdict.level}, {relation} the limit {max_level}: {verdict.sentence}"
    return Ruling(passed, verdict.level, reason, **facts)


def rule_cell(cell: Mapping[str, Any], *, max_level: str) -> Ruling:
    """The ruling on one cell alone."""
    done = int(cell["status"] in ("finished", "stopped early"))
    return rule({"cells": [cell], "summary": {"cells": 1, "finished": done}}, max_level=max_level)


def name_of(cell: Mapping[str, Any]) -> str:
    """`nl-sme / none / seed 0`, with the round where there is one."""
    turn = "" if cell.get("round") is None else f" / round {cell['round']}"
    return f"{cell['attack']} / {cell['defense']} / seed {cell['client']['seed']}{turn}"


def read_result(run: Path) -> dict[str, Any]:
    """result.json of a finished run folder."""
    path = run / "result.json"
    if not path.is_file():
        raise InputError(Problem(f"{run} has no result.json", fix="give the --out of a finished audit"))
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise InputError(Problem(f"{path} is damaged: {error}", fix="run the audit again")) from error
    return result


def write_junit(path: Path, result: Mapping[str, Any], *, max_level: str) -> None:
    """One test case per cell, failed where the cell alone is above the limit."""
    suite = ElementTree.Element("testsuite", name="leakscope")
    failures = 0
    for cell in result["cells"]:
        case = ElementTree.SubElement(suite, "testcase", classname=f"leakscope.{cell['dataset']}", name=name_of(cell))
        ruling = rule_cell(cell, max_level=max_level)
        if not ruling.passed:
            failures += 1
            ElementTree.SubElement(case, "failure", message=ruling.reason)
        else:
            ElementTree.SubElement(case, "system-out").text = ruling.reason
    suite.set("tests", str(len(result["cells"])))
    suite.set("failures", str(failures))
    with writing(path) as aside:
        ElementTree.ElementTree(suite).write(aside, encoding="utf-8", xml_declaration=True)
