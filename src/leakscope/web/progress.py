"""How far a run is: a line per cell, the workers, and the time left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from leakscope.cells.record import ENDED, Record
from leakscope.errors import InputError
from leakscope.report.reading import Reading
from leakscope.verdict.levels import level_of, number
from leakscope.web.events import EventLog
from leakscope.web.folder import RunsFolder

HEAD = "run"
"""Name of the entry that speaks for the whole run, among those of its cells."""


class Progress:
    """The state of one run as plain data, cell by cell; asked again, it reads only what is new."""

    def __init__(self, folder: RunsFolder, name: str) -> None:
        self.folder, self.name = folder, name
        self.logs: dict[str, EventLog] = {}

    def snapshot(self, *, working: bool) -> dict[str, dict[str, Any]]:
        """`run` and every cell's key -> what the page shows of it."""
        overview = self.folder.overview(self.name, working=working)
        try:
            run = self.folder.read(self.name)
        except InputError:
            return {HEAD: {**overview.as_data(), "left": None, "workers": 0, "share": 0.0}}
        records = {cell.key: cell for cell in run.cells}
        planned = [cell for cell in run.planned if cell.key not in records]
        running = overview.state == "running"
        cells = {cell.key: self._cell(run, cell, records, running=running) for cell in (*run.cells, *planned)}
        head = {
            **overview.as_data(),
            "left": time_left(cells),
            "workers": len(_active(cells)),
            "share": share_done(cells),
        }
        head.pop("changed")
        return {HEAD: head, **cells}

    def _cell(self, run: Reading, cell: Record, records: Mapping[str, Record], *, running: bool) -> dict[str, Any]:
        key = cell.key
        log = self.logs.setdefault(key, EventLog(run.path / "cells" / key / "events.jsonl"))
        log.read()
        status = _status(records.get(key), log, running=running)
        latest = {
            name: number(log.latest.get(name)) for name in ("iteration", "iterations", "psnr", "l_sim", "objective")
        }
        total = latest["iterations"] or cell.iterations or None
        going, level = status == "running", level_of(cell)
        return {
            "key": key,
            "title": run.titles[key],
            "status": status,
            "level": level.replace("unknown", "") if key in records else "",
            "n": cell.client.n,
            "error": cell.error,
            **latest,
            "iterations": total,
            "worker": log.latest.get("worker") if going else None,
            "speed": log.speed if going else None,
            "left": _cell_left(latest["iteration"], total, log.speed) if going else None,
            "preview": preview_version(run, key),
            "points": log.points if going or status in ("stopped", "interrupted") else [],
        }


def time_left(cells: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Seconds until the last cell ends, if the waiting ones run as fast as those that go on now."""
    active = _active(cells)
    speeds = [cell["speed"] for cell in active if cell["speed"]]
    if not speeds or any(cell["left"] is None for cell in active):
        return None
    waiting = sum(cell["iterations"] or 0 for cell in cells.values() if cell["status"] == "waiting")
    return float(max(cell["left"] for cell in active) + waiting / sum(speeds))


def share_done(cells: Mapping[str, Mapping[str, Any]]) -> float:
    """0 to 1, counting the iterations of cells that have begun."""
    shares = [
        1.0 if cell["status"] in ENDED else (cell["iteration"] or 0.0) / (cell["iterations"] or math.inf)
        for cell in cells.values()
    ]
    return min(1.0, sum(shares) / len(shares)) if shares else 0.0


def preview_version(run: Reading, key: str) -> str | None:
    """A name that changes whenever the picture does."""
    try:
        return str((run.path / "cells" / key / "preview.png").stat().st_mtime_ns)
    except OSError:
        return None


def _active(cells: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [cell for cell in cells.values() if cell["status"] == "running"]


def _status(record: Record | None, log: EventLog, *, running: bool) -> str:
    """The record's own word where the cell has ended; else what its events say."""
    if record is not None and (record.ended or not running):
        return record.status
    begun = bool(log.latest) and log.latest.get("event") not in ("end", "failed")
    if running:
        return "running" if begun else "waiting"
    return "stopped" if begun else "waiting"


def _cell_left(iteration: float | None, total: float | None, speed: float | None) -> float | None:
    if iteration is None or total is None or not speed:
        return None
    return max(0.0, total - iteration) / speed
