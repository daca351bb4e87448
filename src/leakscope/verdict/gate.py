"""A gate for a deployment: does a run leak more than is allowed? A reason in one line.

The levels and their thresholds are those of `leakscope.verdict`; docs/gate.md tells them to people.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.cells.record import Record
from leakscope.errors import InputError, Problem, unknown
from leakscope.verdict.levels import LEVELS, find, judge, severity
from leakscope.verdict.result import Result, Summary

NEVER_RAN = "never ran: the audit was interrupted. This is no evidence either way"


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


def rule(result: Result, *, max_level: str) -> Ruling:
    """Pass where the level is at most `max_level`; a run that shows nothing, or not all it planned, does not pass."""
    if max_level not in LEVELS:
        raise InputError(unknown("--max-level", max_level, LEVELS))
    verdict = judge(result.records)
    worst = next((find(cell) for cell in result.records if cell.key == verdict.worst_key), None)
    facts: dict[str, Any] = {"limit": max_level, "notes": verdict.reasons}
    if worst is not None:
        facts |= {"interval": worst.interval, "relative": worst.relative}
    if lacking := _lacking(result):
        return Ruling(False, verdict.level, lacking, **facts)
    if verdict.level == "unknown":
        return Ruling(False, verdict.level, f"{verdict.sentence} No evidence is not a pass", **facts)
    passed = severity(verdict.level) <= severity(max_level)
    relation = "within" if passed else "above"
    reason = f"leakage is {verdict.level}, {relation} the limit {max_level}: {verdict.sentence}"
    return Ruling(passed, verdict.level, reason, **facts)


def rule_cell(cell: Record, *, max_level: str) -> Ruling:
    """The ruling on one cell alone."""
    return rule(Result((cell,), Summary(cells=1), cell.faults), max_level=max_level)


def read_result(run: Path) -> Result:
    """result.json of a run folder."""
    path = run / "result.json"
    if not path.is_file():
        raise InputError(Problem(f"{run} has no result.json", fix="give the --out of a finished audit"))
    return Result.read(path)


def _lacking(result: Result) -> str:
    """Why a run cannot be ruled on, whatever its cells show; empty where it can."""
    if result.damage:
        more = f", and {len(result.damage) - 1} more" if len(result.damage) > 1 else ""
        return f"the result is damaged and shows nothing: {result.damage[0]}{more}"
    if result.summary.cells is None:
        return "the result does not tell how many cells were planned: what is missing cannot be known"
    if missing := result.planned - result.finished:
        return f"{missing} of {result.planned} cells did not finish: nothing is shown by them"
    return ""
