"""How long a run will still take, from the events of its cells: attacks differ too much for a plain average."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from leakscope.cells.spec import Cell

Kind = tuple[object, ...]


class TimeLeft:
    """Seconds per iteration of each kind of cell, as measured so far; a kind not met yet counts as the mean of all."""

    def __init__(self, cells: Sequence[Cell], *, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.kinds: dict[str, Kind] = {
            cell.key: (cell.client.dataset, cell.client.model, cell.attack.attack, cell.client.n) for cell in cells
        }
        self.left: dict[str, float] = {cell.key: cell.attack.iterations for cell in cells}
        self.began: dict[str, tuple[float, float]] = {}
        self.spent: dict[Kind, list[float]] = {}
        """kind -> [seconds, iterations]"""
        self.workers, self.clock = workers, clock

    def __call__(self, event: dict[str, Any]) -> None:
        key, kind = event["key"], event["event"]
        if key not in self.left:
            return
        if kind == "start":
            self.began[key] = (self.clock(), 0.0)
        elif kind in ("progress", "end") and key in self.began:
            self._learn(key, float(event["iteration"]))
            self.left[key] = max(0.0, float(event["iterations"] - event["iteration"]))
        if kind in ("end", "failed"):
            self.left[key] = 0.0

    def _learn(self, key: str, iteration: float) -> None:
        since, at = self.began[key]
        now = self.clock()
        spent = self.spent.setdefault(self.kinds[key], [0.0, 0.0])
        spent[0] += now - since
        spent[1] += iteration - at
        self.began[key] = (now, iteration)

    @property
    def seconds(self) -> float | None:
        """None until something was measured."""
        known = {kind: spent[0] / spent[1] for kind, spent in self.spent.items() if spent[1] > 0}
        if not known:
            return None
        mean = sum(known.values()) / len(known)
        return sum(left * known.get(self.kinds[key], mean) for key, left in self.left.items()) / self.workers

    def __str__(self) -> str:
        return "" if self.seconds is None else f"about {spell(self.seconds)} left"


def spell(seconds: float) -> str:
    """A duration for people.

    >>> spell(40), spell(170), spell(8000)
    ('40 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
