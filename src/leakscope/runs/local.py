"""Cells on this machine: in this process, or in parallel single-thread processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from leakscope.cell import Cell, run_cell
from leakscope.errors import InputError
from leakscope.runs.store import Run
from leakscope.runs.watching import CellWatch, Notice

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Places:
    """Where a worker finds data and metric weights."""

    data_root: Path | None = None
    weights: Path | None = None


def work(run: Run, cell: Cell, places: Places, *, stopped: Callable[[], bool], notice: Notice = lambda _: None) -> str:
    """Run one cell into the folder and return its status; a cell that fails is recorded and fails alone."""
    if (done := run.result(cell.key)) is not None:
        return str(done["status"])
    watches: list[CellWatch] = []

    def watching(truth: Any) -> CellWatch:
        watches.append(CellWatch(run, cell.key, truth, stopped=stopped, notice=notice))
        watches[0].tell("start", iteration=0, iterations=cell.iterations)
        return watches[0]

    try:
        outcome = run_cell(
            cell,
            data_root=places.data_root,
            weights=places.weights,
            watching=watching,
            resume=run.checkpoint(cell.key),
        )
    except InputError:
        raise
    except Exception as error:
        run.record_failure(cell, f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        fact = {"event": "failed", "key": cell.key, "error": str(error)}
        run.event(fact)
        notice(fact)
        return "failed"
    run.record(cell.key, outcome)
    watches[0].tell(
        "end",
        status=outcome.record["status"],
        iteration=outcome.record["iterations"],
        iterations=cell.iterations,
    )
    return str(outcome.record["status"])


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C asks the attack to stop between two iterations; the second one breaks off at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_here(run: Run, cells: list[Cell], places: Places, *, notice: Notice) -> bool:
    """One after the other in this process. True unless interrupted."""
    with stop_on_interrupt() as asked:
        for cell in cells:
            if asked.is_set():
                return False
            work(run, cell, places, stopped=asked.is_set, notice=notice)
        return not asked.is_set()


def run_in_processes(run: Run, cells: list[Cell], places: Places, *, workers: int, notice: Notice) -> bool:
    """Parallel processes of one thread each; their progress is read from the event files. True unless interrupted."""
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")}
    os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")  # before the children import torch
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    try:
        with (
            stop_on_interrupt() as asked,
            ProcessPoolExecutor(workers, mp_context=context, initializer=_ready, initargs=(stop,)) as pool,
        ):
            todo: set[Future[str]] = {pool.submit(_work_in_child, run.folder, cell, places) for cell in cells}
            tail = EventTail(run, cells)
            while todo:
                done, todo = wait(todo, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for event in tail.new():
                    notice(event)
                for future in done:
                    future.result()
                if asked.is_set() and not stop.is_set():
                    stop.set()
                    todo -= {future for future in todo if future.cancel()}
            return not asked.is_set()
    finally:
        for name, value in threads.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


class EventTail:
    """The events that other processes have appended since the last look."""

    def __init__(self, run: Run, cells: list[Cell]) -> None:
        self.read = {run.place(cell.key) / "events.jsonl": 0 for cell in cells}
        for path in self.read:
            if path.exists():
                self.read[path] = path.stat().st_size

    def new(self) -> Iterator[dict[str, Any]]:
        for path, start in self.read.items():
            if not path.exists() or path.stat().st_size <= start:
                continue
            with path.open("rb") as file:
                file.seek(start)
                text = file.read()
            whole, _, _ = text.rpartition(b"\n")
            self.read[path] = start + len(whole) + 1 if whole else start
            yield from (json.loads(line) for line in whole.splitlines())


_stop: Any = None


def _ready(stop: Any) -> None:
    """In a child: Ctrl-C reaches the whole process group, but only the parent decides."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work_in_child(folder: Path, cell: Cell, places: Places) -> str:
    import torch

    torch.set_num_threads(1)
    return work(Run(folder), cell, places, stopped=_stop.is_set)
