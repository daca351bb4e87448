"""Two runs side by side: the same attack against the same defense on the same client, before and after a change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from leakscope.cells.identity import differing, titles
from leakscope.cells.record import Record
from leakscope.report.gallery import Strip, strip
from leakscope.report.reading import Reading, by_severity
from leakscope.verdict.levels import Level, find, is_scored, level_of

SHOWN = 5


@dataclass(frozen=True)
class Side:
    """One cell as the table shows it."""

    level: Level
    identified: str
    psnr: float | None
    gain: float | None
    ssim: float | None


@dataclass(frozen=True)
class Pair:
    """The same cell in both runs; None where one of them does not have it."""

    title: str
    left: Side | None
    right: Side | None

    @property
    def change(self) -> float | None:
        """PSNR of the right one minus that of the left one, in dB."""
        if self.left is None or self.right is None or self.left.psnr is None or self.right.psnr is None:
            return None
        return self.right.psnr - self.left.psnr


def pair(left: Reading, right: Reading) -> list[Pair]:
    """The cells of both runs, matched by attack, defense and the update attacked; those that both have come first.

    A fact that is the same for all such cells of either run may differ between the runs: it is the change. One that
    tells cells of the same run apart has to agree.
    """
    ours, theirs = (_by_update(run.cells) for run in (left, right))
    pairs = []
    for update in dict.fromkeys((*ours, *theirs)):
        sides = [ours.get(update, []), theirs.get(update, [])]
        facts = {name for side in sides for name in differing([cell.identity for cell in side])}
        alike = any(len({_only(cell, facts) for cell in side}) < len(side) for side in sides)
        mine, other = ({cell.key if alike else _only(cell, facts): cell for cell in side} for side in sides)
        pairs += [(mine.get(fact), other.get(fact)) for fact in dict.fromkeys((*mine, *other))]
    shown = [cell for both in pairs if (cell := both[0] or both[1]) is not None]
    names = titles([cell.identity for cell in shown])
    found = [Pair(names[cell.key], *map(_side, both)) for cell, both in zip(shown, pairs, strict=True)]
    return sorted(found, key=lambda one: one.left is None or one.right is None)


def _by_update(cells: Sequence[Record]) -> dict[Hashable, list[Record]]:
    found: dict[Hashable, list[Record]] = {}
    for cell in cells:
        found.setdefault((cell.attack, cell.defense, cell.identity.update), []).append(cell)
    return found


def _only(cell: Record, facts: set[str]) -> Hashable:
    """The facts that have to agree."""
    return tuple((name, value) for name, value in cell.identity.conditions.items() if name in facts)


def worst_strip(run: Reading) -> Strip | None:
    """The most leaked images of the run's worst cell."""
    cells = by_severity(run.cells)
    return strip(run, cells[0], redact=False, most=SHOWN) if cells else None


def _side(cell: Record | None) -> Side | None:
    if cell is None:
        return None
    shown = find(cell)
    return Side(
        level=level_of(cell),
        identified=f"{shown.identified} of {shown.n}" if is_scored(cell) and shown.identified is not None else "–",
        psnr=cell.metrics.get("psnr"),
        gain=cell.gain,
        ssim=cell.metrics.get("ssim"),
    )
