"""A gate for a deployment: does a run leak more than is allowed? A reason in one line, and a JUnit file for CI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from leakscope.errors import InputError, Problem, unknown
from leakscope.runs.atomic import writing
from leakscope.verdict import LEVELS, judge, severity


@dataclass(frozen=True)
class Ruling:
    """Whether a run passes, and why."""

    passed: bool
    level: str
    reason: str


def rule(result: Mapping[str, Any], *, max_level: str) -> Ruling:
    """Pass where the level is at most `max_level`; a run that shows nothing, or not all it planned, does not pass."""
    if max_level not in LEVELS:
        raise InputError(unknown("--max-level", max_level, LEVELS))
    verdict, summary = judge(result["cells"]), result["summary"]
    missing = summary["cells"] - summary["finished"]
    if missing:
        return Ruling(
            False, verdict.level, f"{missing} of {summary['cells']} cells did not finish: nothing is shown by them"
        )
    if verdict.level == "unknown":
        return Ruling(False, verdict.level, f"{verdict.sentence} No evidence is not a pass")
    passed = severity(verdict.level) <= severity(max_level)
    relation = "within" if passed else "above"
    return Ruling(
        passed, verdict.level, f"leakage is {verdict.level}, {relation} the limit {max_level}: {verdict.sentence}"
    )


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
        name = f"{cell['attack']} / {cell['defense']} / seed {cell['client']['seed']}"
        case = ElementTree.SubElement(suite, "testcase", classname=f"leakscope.{cell['dataset']}", name=name)
        alone = {"cells": [cell], "summary": {"cells": 1, "finished": int(cell["status"] != "failed")}}
        ruling = rule(alone, max_level=max_level)
        if not ruling.passed:
            failures += 1
            ElementTree.SubElement(case, "failure", message=ruling.reason)
    suite.set("tests", str(len(result["cells"])))
    suite.set("failures", str(failures))
    with writing(path) as aside:
        ElementTree.ElementTree(suite).write(aside, encoding="utf-8", xml_declaration=True)
