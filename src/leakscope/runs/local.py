"""Cells on this machine: in this process, or in parallel single-thread processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from leakscope.cells.run import run_cell
from leakscope.cells.spec import Cell
from leakscope.errors import InputError
from leakscope.files import Tail
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import CellWatch, Notice

POLL_SECONDS = 0.25
BREAKS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGBREAK") if hasattr(signal, name))
"""Ctrl-C, and on Windows Ctrl-Break, which is all that a dashboard can send there."""
DIED = "its process died, alone as well: out of memory, or a crash in native code"


def work(run: Run, cell: Cell, places: Places, *, stopped: Callable[[], bool], notice: Notice = lambda _: None) -> str:
    """Run one cell into the folder and return its status; a cell that fails is recorded and fails alone."""
    if (done := run.result(cell.key)) is not None:
        return done.status
    run.sweep(cell.key)
    watches: list[CellWatch] = []

    def watching(truth: Any) -> CellWatch:
        watches.append(CellWatch(run, cell.key, truth, stopped=stopped, notice=notice))
        watches[0].tell("start", iteration=0, iterations=cell.attack.iterations)
        return watches[0]

    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for --json alone, whatever a model prints
            outcome = run_cell(
                cell,
                data_root=places.data_root,
                weights=places.weights,
                own=places.own,
                watching=watching,
                resume=run.checkpoint(cell.key),
            )
    except InputError as error:
        return fail(run, cell, str(error), refused=True, notice=notice)
    except Exception as error:
        return fail(run, cell, told(error), notice=notice)
    try:
        run.record(cell.key, outcome)
    except (TypeError, ValueError) as error:  # a note of somebody's defense that JSON cannot say
        return fail(run, cell, told(error), notice=notice)
    watches[0].tell(
        "end",
        status=outcome.record.status,
        iteration=outcome.record.iterations,
        iterations=cell.attack.iterations,
    )
    return outcome.record.status


def told(error: Exception) -> str:
    """What went wrong in a line, and where below it."""
    return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"


def fail(run: Run, cell: Cell, error: str, *, refused: bool = False, notice: Notice = lambda _: None) -> str:
    """Record that a cell failed, and tell everybody."""
    run.record_failure(cell, error, refused=refused)
    fact = {"event": "failed", "key": cell.key, "error": error.partition("\n")[0]}
    run.event(fact)
    notice(fact)
    return "failed"


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

    before = {number: signal.signal(number, ask) for number in (*BREAKS, signal.SIGTERM)}
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
    """Parallel processes of one thread each; their progress is read from the event files. True unless interrupted.

    A cell whose process dies (out of memory, a crash in native code) fails alone: the cells that ran when it
    happened run again one by one, and the one that dies again is recorded.
    """
    left, suspects = list(cells), []
    with one_thread_each(), stop_on_interrupt() as asked:
        while left and not asked.is_set():
            ended, dead = _pool(run, left, places, workers=min(workers, len(left)), notice=notice, asked=asked)
            suspects += [cell for cell in left if cell.key in dead]
            left = [cell for cell in left if cell.key not in ended | dead]
        for cell in suspects:
            if asked.is_set():
                break
            _, dead = _pool(run, [cell], places, workers=1, notice=notice, asked=asked)
            if dead:
                fail(run, cell, DIED, notice=notice)
        return not asked.is_set()


def _pool(
    run: Run, cells: list[Cell], places: Places, *, workers: int, notice: Notice, asked: threading.Event
) -> tuple[set[str], set[str]]:
    """Run cells in one pool of processes -> (keys that ended, keys that may have killed it)."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    ended: set[str] = set()
    taken: set[str] = set()
    paths = [run.place(cell.key) / "events.jsonl" for cell in cells]
    tails = [Tail(path, path.stat().st_size if path.exists() else 0) for path in paths]
    with ProcessPoolExecutor(workers, mp_context=context, initializer=ready, initargs=(stop,)) as pool:
        keys = {pool.submit(_work_in_child, run.folder, cell, places): cell.key for cell in cells}
        todo: set[Future[str]] = set(keys)
        while todo:
            taken = {keys[future] for future in todo if future.running()} or taken
            done, todo = wait(todo, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for event in (event for tail in tails for event in tail.new()):
                notice(event)
            try:
                ended |= {keys[future] for future in done if future.result()}
            except BrokenProcessPool:
                ended |= {keys[future] for future in done if future.exception() is None}
                return ended, (taken or set(keys.values())) - ended
            if asked.is_set() and not stop.is_set():
                stop.set()
                todo -= {future for future in todo if future.cancel()}
    return ended, set()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Children that start in here compute with one thread and wait without spinning."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")}
    os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")  # read when the children import torch
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


_stop: Any = None


def ready(stop: Any = None) -> None:
    """In a child: Ctrl-C reaches the whole process group, but only the parent decides; and none outlives it."""
    global _stop
    _stop = stop
    for number in BREAKS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot stop its children: without it they would compute on, unseen."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _work_in_child(folder: Path, cell: Cell, places: Places) -> str:
    import torch

    torch.set_num_threads(1)
    return work(Run(folder), cell, places, stopped=_stop.is_set)
