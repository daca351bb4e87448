"""The event file of a cell, read as it grows: how far the attack is, how fast, and the curve so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakscope.files import Tail, object_in
from leakscope.verdict.levels import number

POINTS = 200
"""A live curve keeps at most twice this many points."""
CURVES = ("psnr", "l_sim", "objective")

Point = tuple[float, float | None, float | None, float | None]
"""(iteration, psnr, l_sim, objective)."""


@dataclass
class EventLog(Tail):
    """One events.jsonl, and what it has told so far."""

    latest: dict[str, Any] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    started: tuple[float, float] | None = None
    """(time, iteration) since when the speed is measured."""

    def read(self) -> None:
        """Take in the new lines."""
        for event in self.new():
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        at, when = number(event.get("iteration")), number(event.get("time"))
        if event.get("event") == "start":
            self.started = None
        self.latest = {**self.latest, **event}
        if at is None or when is None:
            return
        if self.started is None or at < self.started[1]:
            self.started = (when, at)
        self._add((at, *(number(event.get(name)) for name in CURVES)))  # type: ignore[arg-type]

    def _add(self, point: Point) -> None:
        """One more point of the curve; a run that went back to its checkpoint draws over what came after it."""
        while self.points and self.points[-1][0] >= point[0]:
            self.points.pop()
        fresh = not self.points or self.points[-1][1:] != point[1:]  # events repeat the values between two looks
        if fresh and any(value is not None for value in point[1:]):
            self.points.append(point)
        if len(self.points) > 2 * POINTS:
            self.points = [*self.points[:-1:2], self.points[-1]]

    @property
    def speed(self) -> float | None:
        """Iterations per second since the attack last started."""
        at, when = number(self.latest.get("iteration")), number(self.latest.get("time"))
        if self.started is None or at is None or when is None or when <= self.started[0] or at <= self.started[1]:
            return None
        return (at - self.started[1]) / (when - self.started[0])


def last_sign(run: Path) -> tuple[float, int | None]:
    """(time of the newest event of a run, process that wrote it)."""
    newest, when = None, 0.0
    for path in (run / "cells").glob("*/events.jsonl"):
        try:
            changed = path.stat().st_mtime
        except OSError:
            continue
        if changed > when:
            newest, when = path, changed
    if newest is None:
        return 0.0, None
    worker = _last_event(newest).get("worker")
    return when, worker if isinstance(worker, int) else None


def _last_event(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().splitlines()
    except OSError:
        return {}
    return next((event for line in reversed(lines) if (event := object_in(line)) is not None), {})
