"""Remarks on a run beside its verdict: the worst of its rounds, and doubts about its updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakscope.cells.record import Record
from leakscope.errors import Problem
from leakscope.report.wording import spread
from leakscope.verdict.levels import is_scored, judge


@dataclass(frozen=True)
class Doubt:
    """A finding of the look before the attack, with the cells it is about."""

    found: str
    why: str
    fix: str
    cells: str


def worst_round(cells: Sequence[Record]) -> str | None:
    """`Worst round: 3, level high. nl-sme identifies ...`; None where there are no two rounds to compare."""
    scored = [cell for cell in cells if cell.round is not None and is_scored(cell)]
    if len({cell.round for cell in scored}) < 2:
        return None
    verdict = judge(scored)
    worst = next(cell for cell in scored if cell.key == verdict.worst_key)
    return f"Worst round: {worst.round}, level {verdict.level}. {verdict.sentence}"


def doubts(cells: Sequence[Record]) -> tuple[Doubt, ...]:
    """Each finding once."""
    found: dict[Problem, list[str]] = {}
    for cell in cells:
        for finding in cell.findings:
            found.setdefault(finding.problem, []).append(cell.title)
    return tuple(Doubt(one.found, one.why, one.fix, cells=spread(titles)) for one, titles in found.items())
