"""A gate for a deployment: does a run leak more than is allowed? A reason in one line.

The levels and their thresholds are those of `leakscope.verdict`; docs/gate.md tells them to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.files import read_object
from leakscope.verdict.levels import LEVELS, find, judge, severity

NEVER_RAN = "the audit was broken off before this cell: nothing is shown by it"


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
    if missing := summary["cells"] - summary["finished"]:
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


def never_ran(result: Mapping[str, Any]) -> int:
    """How many cells were planned that have left no record at all, not even of a failure."""
    return max(0, int(result["summary"].get("cells", 0)) - len(result["cells"]))


def read_result(run: Path) -> dict[str, Any]:
    """result.json of a finished run folder."""
    path = run / "result.json"
    if not path.is_file():
        raise InputError(Problem(f"{run} has no result.json", fix="give the --out of a finished audit"))
    result = read_object(path)
    refuse(
        Problem(f"{path} is damaged: it has no {name}", fix="run the audit again")
        for name in ("cells", "summary")
        if name not in result
    )
    return result
