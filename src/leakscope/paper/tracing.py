"""The targets without an attack: a client is trained and looked at, in parallel processes, each result a file."""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.cell import Cell
from leakscope.paper import trajectory
from leakscope.runs.atomic import write_json
from leakscope.runs.local import one_thread_each, ready

MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "figure6": trajectory.linear_error,
    "theorem1": trajectory.theorem1,
}
"""What is measured for a target that has no attacks."""
DIVERGED = "the client's training diverged"


@dataclass(frozen=True)
class Trace:
    """One client to look at; the attack of its cell is never run."""

    target: str
    cell: Cell

    @property
    def key(self) -> str:
        return f"{self.target}-{self.cell.key}"

    def path(self, folder: Path) -> Path:
        return folder / "trajectories" / f"{self.key}.json"

    def result(self, folder: Path) -> dict[str, Any] | None:
        """What was measured, None where it was not yet."""
        path = self.path(folder)
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def run_traces(traces: Sequence[Trace], folder: Path, data_root: Path | None, *, workers: int) -> None:
    """Measure what has not been measured yet."""
    todo = [trace for trace in traces if trace.result(folder) is None]
    if workers == 1 or len(todo) < 2:
        for trace in todo:
            measure(trace, folder, data_root)
        return
    context = multiprocessing.get_context("spawn")
    with one_thread_each(), ProcessPoolExecutor(workers, mp_context=context, initializer=ready) as pool:
        for done in [pool.submit(measure, trace, folder, data_root) for trace in todo]:
            done.result()


def measure(trace: Trace, folder: Path, data_root: Path | None) -> None:
    """One trace, into its file."""
    began = time.perf_counter()
    found = MEASURES[trace.target](trace.cell, data_root=data_root)
    record = {
        "key": trace.key,
        "target": trace.target,
        "cell": trace.cell.model_dump(exclude_defaults=True),
        "metrics": {name: value if math.isfinite(value) else None for name, value in found.items()},
        "missing": {name: DIVERGED for name, value in found.items() if not math.isfinite(value)},
        "status": "finished",
        "seconds": time.perf_counter() - began,
    }
    write_json(trace.path(folder), record)
