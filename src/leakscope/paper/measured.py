"""Reported next to measured: the rows of a reproduced table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leakscope.cells.record import Record
from leakscope.metrics import METRICS
from leakscope.paper.grid import Entry

DERIVED: dict[str, Callable[[Record], float | None]] = {
    "minutes": lambda record: None if record.seconds is None else record.seconds / 60,
    "memory_gb": lambda record: None if record.peak_memory_mb is None else record.peak_memory_mb / 1000,
}


@dataclass(frozen=True)
class Line:
    """One metric of one attack in one setting."""

    setting: str
    attack: str | None
    metric: str
    reported: float | None
    reported_deviation: float | None
    measured: float | None
    deviation: float | None
    """Over clients; None for a single one."""
    clients: int
    reason: str = ""
    """Why there is no number, or not from every client."""
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        return None if self.measured is None or self.reported is None else self.measured - self.reported

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "notes": list(self.notes), "difference": self.difference}


def lines_of(entry: Entry, records: Sequence[Record], reasons: Sequence[str] = ()) -> list[Line]:
    """The lines of an entry from the records of its clients."""
    said = entry.target.reported(entry.setting.name, entry.attack or "")
    told = dict.fromkeys(note for record in records if (note := record.generator) is not None)
    found = []
    for metric in entry.target.metrics:
        values = [value for value in (value_of(record, metric) for record in records) if value is not None]
        absent = [why for record in records if (why := record.missing.get(metric))]
        mean, spread = said.get(metric, (None, None))
        found.append(
            Line(
                setting=entry.setting.name,
                attack=entry.attack,
                metric=metric,
                reported=mean,
                reported_deviation=spread,
                measured=statistics.fmean(values) if values else None,
                deviation=statistics.stdev(values) if len(values) > 1 else None,
                clients=len(values),
                reason="; ".join(dict.fromkeys((*reasons, *absent))),
                notes=(*entry.notes, *told),
            )
        )
    return found


def value_of(record: Record, metric: str) -> float | None:
    """A metric of a finished cell, None where it is not known."""
    if metric in DERIVED:
        return DERIVED[metric](record)
    return record.metrics.get(metric)


def best(lines: Sequence[Line], metric: str) -> dict[str, tuple[str | None, str | None]]:
    """setting -> (best attack as measured, best as reported) by one metric, where several were compared."""
    pick = max if METRICS[metric].higher_is_better else min

    def first(setting: str, kind: str) -> str | None:
        here = (line for line in lines if line.setting == setting and line.metric == metric)
        known = [(value, line.attack) for line in here if (value := getattr(line, kind)) is not None]
        return pick(known)[1] if len(known) > 1 else None

    settings = dict.fromkeys(line.setting for line in lines)
    return {setting: (first(setting, "measured"), first(setting, "reported")) for setting in settings}
