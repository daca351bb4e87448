"""The attack x defense table: cells that differ in nothing else are put together, over clients and rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from leakscope.cells.record import Record
from leakscope.metrics.intervals import wilson_interval
from leakscope.report.guarantee import Guarantee, guarantee_of
from leakscope.report.reading import by_severity
from leakscope.verdict.levels import Level, find, is_scored, worst_level

SHADES = 6
"""Steps of the colour scale, from nothing identified to all."""


@dataclass(frozen=True)
class Entry:
    """One attack against one defense, over all clients of the run."""

    worst_key: str
    level: Level
    clients: int
    identified: int | None
    images: int
    interval: tuple[float, float]
    psnr: float | None
    gain: float | None
    """PSNR above the guess, in dB."""
    ssim: float | None

    @property
    def share(self) -> float | None:
        return self.identified / self.images if self.identified is not None and self.images else None

    @property
    def shade(self) -> int:
        """0..SHADES-1, or -1 where identification was not measured."""
        return -1 if self.share is None else min(SHADES - 1, int(self.share * SHADES))


@dataclass(frozen=True)
class Row:
    """One defense: an entry per attack, and what the defense costs."""

    defense: str
    level: Level
    entries: tuple[Entry | None, ...]
    accuracy: float | None
    undefended: float | None
    guarantee: Guarantee | None

    @property
    def loss(self) -> float | None:
        known = self.accuracy is not None and self.undefended is not None
        return self.undefended - self.accuracy if known else None  # type: ignore[operator]


@dataclass(frozen=True)
class Matrix:
    """All attacks against all defenses under one setting."""

    setting: str
    attacks: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def has_accuracy(self) -> bool:
        return any(row.accuracy is not None for row in self.rows)


def matrices(cells: Sequence[Record]) -> tuple[Matrix, ...]:
    """One table per setting (data, model, client), in the order of the run."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for cell in cells:
        groups.setdefault(_setting(cell), []).append(cell)
    columns = list(zip(*groups, strict=True))
    differing = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    return tuple(
        _matrix(", ".join(setting[place] for place in differing if setting[place]), group)
        for setting, group in groups.items()
    )


def _setting(cell: Record) -> tuple[str, ...]:
    """What an attack and a defense have to share to be compared."""
    client = cell.client
    return (
        cell.dataset,
        cell.model,
        f"{client.n} images",
        f"{client.epochs} epochs",
        f"batches of {client.batch_size}",
        f"rate {client.lr}",
        f"{client.mode} mode",
        f"labels {cell.knowledge.labels}",
        f"fused {cell.fuse}" if cell.fuse else "",
        f"start {cell.w0}",
        cell.tag or "",
    )


def _matrix(setting: str, cells: Sequence[Record]) -> Matrix:
    attacks = tuple(dict.fromkeys(cell.attack for cell in cells))
    defenses = dict.fromkeys(cell.defense for cell in cells)
    rows = tuple(_row(name, [cell for cell in cells if cell.defense == name], attacks) for name in defenses)
    return Matrix(setting, attacks, rows)


def _row(defense: str, cells: Sequence[Record], attacks: Sequence[str]) -> Row:
    return Row(
        defense=defense,
        level=worst_level(cells),
        entries=tuple(_entry([cell for cell in cells if cell.attack == attack]) for attack in attacks),
        accuracy=_mean(cell.accuracy.defended for cell in cells),
        undefended=_mean(cell.accuracy.undefended for cell in cells),
        guarantee=next((found for cell in cells if (found := guarantee_of(cell))), None),
    )


def _entry(cells: Sequence[Record]) -> Entry | None:
    scored = [cell for cell in cells if is_scored(cell)]
    if not scored:
        return None
    findings = [find(cell) for cell in scored]
    hits = [finding.identified for finding in findings]
    images = sum(finding.n for finding in findings)
    identified = None if None in hits else sum(hit or 0 for hit in hits)
    return Entry(
        worst_key=by_severity(scored)[0].key,
        level=worst_level(scored),
        clients=len(scored),
        identified=identified,
        images=images,
        interval=wilson_interval(identified, images) if identified is not None and images else (0.0, 1.0),
        psnr=_mean(cell.metrics.get("psnr") for cell in scored),
        gain=_mean(cell.gain for cell in scored),
        ssim=_mean(cell.metrics.get("ssim") for cell in scored),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
