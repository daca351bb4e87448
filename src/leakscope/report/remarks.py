"""Remarks on a run beside its verdict: the worst of its rounds, and doubts about its updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakscope.report.gallery import title_of
from leakscope.report.wording import spread
from leakscope.verdict.levels import Cell, is_scored, judge, number


@dataclass(frozen=True)
class Doubt:
    """A finding of the look before the attack, with the cells it is about."""

    found: str
    why: str
    fix: str
    cells: str


def worst_round(cells: Sequence[Cell]) -> str | None:
    """`Worst round: 3, level high. nl-sme identifies ...`; None where there are no two rounds to compare."""
    scored = [cell for cell in cells if number(cell.get("round")) is not None and is_scored(cell)]
    if len({cell["round"] for cell in scored}) < 2:
        return None
    verdict = judge(scored)
    worst = next(cell for cell in scored if cell["key"] == verdict.worst_key)
    return f"Worst round: {worst['round']}, level {verdict.level}. {verdict.sentence}"


def doubts(cells: Sequence[Cell]) -> tuple[Doubt, ...]:
    """Each finding once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        notes = (cell.get("notes") or {}).get("preflight")
        for note in notes if isinstance(notes, list) else ():
            if isinstance(note, Mapping):
                facts = (str(note.get("found", "")), str(note.get("why", "")), str(note.get("fix", "")))
                found.setdefault(facts, []).append(title_of(cell))
    return tuple(Doubt(*facts, cells=spread(titles)) for facts, titles in found.items())
