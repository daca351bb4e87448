"""From scores to one word: how much did this run leak?

A cell (one client, one defense, one attack) is judged by two signals; the higher one gives its level, and the
worst cell gives the level of the run.

    level    all images together: excess of the share           worst image: best relative score
             identified, from its lower 95 % Wilson bound        among the identified
    low      above 0                                             at least 0.20
    medium   at least 0.25                                       at least 0.40
    high     at least 0.50                                       at least 0.60

An image is *identified* when it is nearer to its reconstruction than every held-out candidate. With p the lower end
of the interval and c the share that guesses without the update identify, the *excess* is (p - c) / (1 - c): 0 is
chance, 1 is everybody. The *relative score* of an image is (s - b) / (1 - b), where s is the SSIM of its
reconstruction and b the SSIM of a guess: 0 is worth nothing, 1 is the image itself. Only identified images count for
the second signal, because among many images the luckiest guess always beats the average guess; where
identification was not measured, all of them count.

A failed or unscored cell is no evidence either way, and neither is one in which nothing was compared with a guess (no
held-out images); a run that holds nothing else is `unknown`, never `none`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakscope.cells.record import Record
from leakscope.metrics.intervals import wilson_interval

Level = Literal["unknown", "none", "low", "medium", "high"]
LEVELS: tuple[Level, ...] = ("none", "low", "medium", "high")
"""The levels of a scored run, mildest first."""

EXCESS = {"medium": 0.25, "high": 0.50}
RELATIVE = {"low": 0.20, "medium": 0.40, "high": 0.60}

NOTHING_SCORED = "Nothing could be scored, so this run says nothing about leakage."
NOT_PRIVATE = "That no attack succeeded is not a proof of privacy."


@dataclass(frozen=True)
class Shown:
    """What one cell shows."""

    key: str
    level: Level
    identified: int | None
    n: int
    interval: tuple[float, float]
    """95 % Wilson interval of the share identified."""
    chance: float
    """Share a guess without the update identifies."""
    relative: float | None
    """Relative score of the worst image, in the sense of: most leaked."""

    @property
    def rank(self) -> tuple[int, float, float]:
        """Orders cells from harmless to worst."""
        return (severity(self.level), self.interval[0], self.relative or 0.0)


@dataclass(frozen=True)
class Verdict:
    """The level of a run, a sentence to say it with, what it rests on, and the cell that set it."""

    level: Level
    sentence: str
    reasons: tuple[str, ...]
    worst_key: str | None


def judge(cells: Sequence[Record]) -> Verdict:
    """The worst cell speaks for the run."""
    scored = [(find(cell), cell) for cell in cells if is_scored(cell)]
    caveats = _caveats(cells)
    if not scored:
        return Verdict("unknown", NOTHING_SCORED, caveats, None)
    worst, cell = max(scored, key=lambda pair: pair[0].rank)
    reasons = (*_evidence(worst), *caveats)
    return Verdict(worst.level, _sentence(worst, cell), reasons, worst.key)


def find(cell: Record) -> Shown:
    """Judge one scored cell."""
    hits = cell.each("identified")
    n = len(hits) or len(cell.each("psnr")) or cell.client.n or 0
    identified = _count(cell, hits, n)
    interval = (0.0, 1.0) if identified is None or n == 0 else wilson_interval(identified, n)
    chance = cell.baseline.get("identified") or 0.0
    relative = max((score for score in _countable(cell, hits)), default=None)
    levels = (
        "none" if identified is None else _level_of_share(interval[0], chance),
        "none" if relative is None else _level_of_relative(relative),
    )
    return Shown(
        key=cell.key,
        level=max(levels, key=severity),
        identified=identified,
        n=n,
        interval=interval,
        chance=chance,
        relative=relative,
    )


def is_scored(cell: Record) -> bool:
    """Whether a cell carries evidence: it did not fail, and truth and a guess were there to compare with."""
    identified = cell.metrics.get("identified")
    compared = identified is not None or any(score is not None for score in relative_scores(cell))
    return cell.status != "failed" and compared


def level_of(cell: Record) -> Level:
    """The level of a cell alone, `unknown` where it is not scored."""
    return find(cell).level if is_scored(cell) else "unknown"


def worst_level(cells: Sequence[Record]) -> Level:
    """The level of the worst scored cell, `unknown` where there is none."""
    return max(map(level_of, cells), key=severity, default="unknown")


def severity(level: Level) -> int:
    """-1 for unknown, then 0 to 3.

    >>> severity("high"), severity("unknown")
    (3, -1)
    """
    return LEVELS.index(level) if level in LEVELS else -1


def relative_scores(cell: Record) -> Sequence[float | None]:
    """(s - b) / (1 - b) per image on SSIM, in the originals' order.

    As the metrics recorded it; from the SSIM of each image and the mean of the guess where they did not.
    """
    guess = cell.baseline.get("ssim")
    return cell.each("relative_ssim") or [_relative(score, guess) for score in cell.each("ssim")]


def number(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _relative(score: float | None, guess: float | None) -> float | None:
    if score is None or guess is None or guess >= 1:
        return None
    return (score - guess) / (1 - guess)


def _count(cell: Record, hits: Sequence[float | None], n: int) -> int | None:
    """How many images were identified: counted where the cell lists them, else from the share."""
    if hits:
        return sum(1 for hit in hits if hit is not None and hit >= 0.5)
    share = cell.metrics.get("identified")
    return None if share is None else round(min(1.0, max(0.0, share)) * n)


def _countable(cell: Record, hits: Sequence[float | None]) -> list[float]:
    """Relative scores of the images that may set the level."""
    scores = relative_scores(cell)
    known = hits if len(hits) == len(scores) else [1.0] * len(scores)
    return [score for score, hit in zip(scores, known, strict=True) if score is not None and hit]


def _level_of_share(lower: float, chance: float) -> Level:
    excess = (lower - chance) / (1 - chance) if chance < 1 else 0.0
    if excess <= 0:
        return "none"
    return max((level for level in LEVELS if EXCESS.get(level, 0.0) <= excess), key=severity)


def _level_of_relative(score: float) -> Level:
    return max((level for level in LEVELS if RELATIVE.get(level, -math.inf) <= score), key=severity)


def _sentence(worst: Shown, cell: Record) -> str:
    attack, defense = cell.attack or "the attack", cell.defense
    source = "an undefended update" if defense == "none" else f"an update defended by {defense}"
    if worst.level == "none":
        best = "" if worst.identified is None else f" (at best {_identified(worst)}, by {attack})"
        return f"No attack in this run identified more images than a guess would{best}. {NOT_PRIVATE}"
    if worst.identified is None:
        return f"{attack} rebuilds images from {source}; relative score of the closest: {worst.relative:.2f}."
    return (
        f"{attack} identifies {worst.identified} of {worst.n} private images from {source} "
        f"(95 % interval {_percent(worst.interval)}; a guess made without the update: {100 * worst.chance:.0f} %)."
    )


def _identified(worst: Shown) -> str:
    """`3 of 50, 95 % interval 2–16 %`."""
    return f"{worst.identified} of {worst.n}, 95 % interval {_percent(worst.interval)}"


def _evidence(worst: Shown) -> tuple[str, ...]:
    found = []
    if worst.identified is not None:
        share = f"identified {worst.identified} of {worst.n}"
        found.append(f"{share}, interval {_percent(worst.interval)}, guess {100 * worst.chance:.0f} %")
    if worst.relative is not None:
        found.append(f"closest image: relative score {worst.relative:.2f} (0 = a guess, 1 = the image itself)")
    return tuple(found)


def _caveats(cells: Sequence[Record]) -> tuple[str, ...]:
    """What the level does not rest on."""
    failed = sum(cell.status == "failed" for cell in cells)
    blind = sum(cell.status != "failed" and not is_scored(cell) for cell in cells)
    cut = sum(cell.status == "interrupted" for cell in cells)
    warned = sum(bool(cell.findings) for cell in cells)
    counted = (
        (failed, "failed and say nothing"),
        (blind, "could not be scored: the truth or other images to compare with are missing"),
        (cut, "were interrupted: a longer attack may find more"),
        (warned, "ran with preflight warnings: leakage may be underestimated"),
    )
    return tuple(f"{count} of {len(cells)} cells {what}" for count, what in counted if count)


def _percent(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:.0f}–{100 * interval[1]:.0f} %"
