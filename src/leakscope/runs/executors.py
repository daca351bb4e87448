"""Where cells run: an executor takes the cells that are left and stores each result in the run folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from leakscope.cells.spec import Cell
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.runs.local import run_here, run_in_processes
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice

LOOPBACK = ("127.", "localhost", "[::1]")


class Executor(Protocol):
    """Runs cells into a folder; True unless it was interrupted."""

    def __call__(self, run: Run, cells: list[Cell], places: Places, *, notice: Notice) -> bool: ...


def local(*, workers: int, ray_address: str | None = None) -> Executor:
    """In this process, or in parallel processes of one thread each."""
    refuse(
        [Problem("--ray-address without --executor ray", fix="add --executor ray, or drop the address")]
        if ray_address
        else []
    )
    return partial(run_in_processes, workers=workers) if workers > 1 else run_here


def ray(*, workers: int, ray_address: str | None = None) -> Executor:
    """On a Ray cluster, or on one that is started here with as many CPUs as workers."""
    if ray_address is None or ray_address.startswith(LOOPBACK):
        # Ray takes loopback for the host's own address unless it is told, before it is imported, to stay on it
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        from leakscope.runs.ray import run_on_ray
    except ImportError as error:
        raise InputError(Problem(f"--executor ray needs Ray: {error}", fix="pip install 'leakscope[ray]'")) from error
    return partial(run_on_ray, address=ray_address, workers=workers)


EXECUTORS: dict[str, Callable[..., Executor]] = {"local": local, "ray": ray}


def choose_executor(name: str = "local", *, workers: int = 1, ray_address: str | None = None) -> Executor:
    """The executor of a name, after its options were checked."""
    refuse(executor_problems(name, workers=workers))
    return EXECUTORS[name](workers=workers, ray_address=ray_address)


def executor_problems(name: str, *, workers: int) -> Iterator[Problem]:
    """What is wrong with the choice of one."""
    if name not in EXECUTORS:
        yield unknown("--executor", name, EXECUTORS)
    if workers < 1:
        yield Problem(f"--workers {workers} is not at least 1", fix="--workers 1 or more")
