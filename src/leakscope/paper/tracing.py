"""The targets without an attack: a client is trained and looked at, in parallel processes, each result a file."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.cells.record import Record
from leakscope.cells.spec import Cell
from leakscope.files import read_object, write_json
from leakscope.paper import trajectory
from leakscope.runs.local import POLL_SECONDS, one_thread_each, ready, stop_on_interrupt

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
        return read_object(path) if path.exists() else None


def as_record(found: Mapping[str, Any]) -> Record:
    """What was measured of a trace, as a cell without an attack would tell it."""
    told = ("key", "metrics", "missing", "status", "seconds")
    return Record.parse({name: found[name] for name in told}, place=str(found["key"]))


def run_traces(traces: Sequence[Trace], folder: Path, data_root: Path | None, *, workers: int) -> bool:
    """Measure what has not been measured yet. True unless interrupted."""
    todo = [trace for trace in traces if trace.result(folder) is None]
    with stop_on_interrupt() as asked:
        if workers == 1 or len(todo) < 2:
            for trace in todo:
                if not asked.is_set():
                    measure(trace, folder, data_root)
            return not asked.is_set()
        context = multiprocessing.get_context("spawn")
        with one_thread_each(), ProcessPoolExecutor(workers, mp_context=context, initializer=ready) as pool:
            left = {pool.submit(measure, trace, folder, data_root) for trace in todo}
            while left:
                done, left = wait(left, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
                if asked.is_set():
                    left -= {one for one in left if one.cancel()}
        return not asked.is_set()


def measure(trace: Trace, folder: Path, data_root: Path | None) -> None:
    """One trace, into its file."""
    began = time.perf_counter()
    found = MEASURES[trace.target](trace.cell, data_root=data_root)
    record = {
        "key": trace.key,
        "target": trace.target,
        "cell": trace.cell.flat(brief=True),
        "metrics": {name: value if math.isfinite(value) else None for name, value in found.items()},
        "missing": {name: DIVERGED for name, value in found.items() if not math.isfinite(value)},
        "status": "finished",
        "seconds": time.perf_counter() - began,
    }
    write_json(trace.path(folder), record)
