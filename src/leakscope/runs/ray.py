"""Cells on a Ray cluster: tasks with declared needs; the driver alone writes the run folder.

A cell whose node or process is lost runs again elsewhere, from its last checkpoint; one that is lost every time fails
alone. Every node needs leakscope, the data and the metric weights at the same paths.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from leakscope.cells.spec import Cell
from leakscope.data.loading import data_root
from leakscope.errors import InputError, Problem
from leakscope.metrics.lpips_weights import weights_folder
from leakscope.runs.local import POLL_SECONDS, fail, stop_on_interrupt, work
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice

ATTEMPTS = 3
MEMORY = 1 << 30
"""What a cell is declared to need; the largest of the paper's settings peaks below it."""
STOP_SECONDS = 1.0
"""How often a task asks whether to stop."""
SENT = ("images.safetensors", "preview.png", "checkpoint.pt", "cell.json")
"""What of a cell's folder goes back to the driver, the record last."""


class Board:
    """What tasks tell the driver while they run, and whether it wants them to stop. Lives on the driver's node."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.checkpoints: dict[str, bytes] = {}
        self.stopping = False

    def tell(self, event: dict[str, Any], checkpoint: bytes | None = None) -> None:
        self.events.append(event)
        if checkpoint is not None:
            self.checkpoints[event["key"]] = checkpoint

    def take(self) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
        taken = self.events, self.checkpoints
        self.events, self.checkpoints = [], {}
        return taken

    def stop(self) -> None:
        self.stopping = True

    def stopped(self) -> bool:
        return self.stopping


def run_on_ray(
    run: Run, cells: list[Cell], places: Places, *, address: str | None, workers: int, notice: Notice
) -> bool:
    """Run cells as tasks of a cluster, or of one with `workers` CPUs that is started here. True unless interrupted."""
    if not cells:
        return True
    with connected(address, workers), stop_on_interrupt() as asked:
        _require_room(cells)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        board: Any = ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()
        places = _resolved(places)
        jobs = {_submit(run, cell, places, board): cell for cell in cells}
        lost: Counter[str] = Counter()
        while jobs:
            done, _ = ray.wait(list(jobs), timeout=POLL_SECONDS)
            _hear(run, ray.get(board.take.remote()), notice)
            for job in done:
                cell = jobs.pop(job)
                try:
                    _store(run, cell, ray.get(job))
                except RayError as error:
                    lost[cell.key] += 1
                    if lost[cell.key] < ATTEMPTS and not asked.is_set():
                        jobs[_submit(run, cell, places, board)] = cell
                    elif not asked.is_set():
                        fail(run, cell, f"lost {ATTEMPTS} times with its process or node: {error}", notice=notice)
            if asked.is_set():
                board.stop.remote()
        _hear(run, ray.get(board.take.remote()), notice)
        return not asked.is_set()


@contextlib.contextmanager
def connected(address: str | None, workers: int) -> Iterator[None]:
    """A connection to the cluster at `address`; without one, a cluster on this machine that nobody else can reach."""
    if ray.is_initialized():
        yield
        return
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(
            address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **({} if address else own)
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        problem = Problem(f"no Ray cluster at {address}: {error}", fix="start one with `ray start --head`")
        raise InputError(problem) from error
    try:
        yield
    finally:
        ray.shutdown()


def needs(cell: Cell) -> dict[str, float]:
    """What a task declares, so that a node never takes more cells than it can hold."""
    return {"num_cpus": 1, "num_gpus": int(cell.device.startswith("cuda")), "memory": MEMORY}


def _submit(run: Run, cell: Cell, places: Places, board: Any) -> Any:
    saved = run.place(cell.key) / "checkpoint.pt"
    checkpoint = saved.read_bytes() if saved.exists() else None
    task = ray.remote(_remote_cell).options(**needs(cell), max_retries=0, name=str(cell))
    return task.remote(cell.with_absolute_paths(), places, checkpoint, board)


def _remote_cell(cell: Cell, places: Places, checkpoint: bytes | None, board: Any) -> dict[str, bytes] | None:
    """On a node: run one cell in a folder of its own and send what came of it; None where nothing was begun."""
    import torch

    torch.set_num_threads(1)
    stopped = _Stopped(board)
    if stopped():
        return None
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        place = run.place(cell.key)
        place.mkdir(parents=True)
        if checkpoint is not None:
            (place / "checkpoint.pt").write_bytes(checkpoint)

        def tell(event: dict[str, Any]) -> None:
            kept = (place / "checkpoint.pt").read_bytes() if event["event"] == "checkpoint" else None
            board.tell.remote(event, kept)

        work(run, cell, places, stopped=stopped, notice=tell)
        return {name: (place / name).read_bytes() for name in SENT if (place / name).exists()}


class _Stopped:
    """Whether the driver wants this task to stop; asked now and then, not at every iteration."""

    def __init__(self, board: Any) -> None:
        self.board, self.asked, self.answer = board, float("-inf"), False

    def __call__(self) -> bool:
        if not self.answer and time.monotonic() - self.asked > STOP_SECONDS:
            self.answer = bool(ray.get(self.board.stopped.remote()))
            self.asked = time.monotonic()
        return self.answer


def _hear(run: Run, told: tuple[list[dict[str, Any]], dict[str, bytes]], notice: Notice) -> None:
    events, checkpoints = told
    for key, content in checkpoints.items():
        if run.result(key) is None:
            run.receive(key, {"checkpoint.pt": content})
    for event in events:
        run.event(event)
        notice(event)


def _store(run: Run, cell: Cell, files: Mapping[str, bytes] | None) -> None:
    if files is not None:
        run.receive(cell.key, {name: files[name] for name in SENT if name in files})


def _require_room(cells: list[Cell]) -> None:
    """A task that no node can ever hold would wait for ever."""
    nodes = [node["Resources"] for node in cast(Any, ray).nodes() if node["Alive"]]
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    for cell in cells:
        asked = {names[name]: amount for name, amount in needs(cell).items() if amount}
        if not any(all(node.get(name, 0) >= amount for name, amount in asked.items()) for node in nodes):
            wanted = ", ".join(f"{name} {amount:g}" for name, amount in asked.items())
            raise InputError(
                Problem(f"no node of the Ray cluster has {wanted}", why=f"{cell} needs it", fix="add a larger node")
            )


def _resolved(places: Places) -> Places:
    """Paths as the driver sees them: another node's environment may say something else."""
    weights = weights_folder(places.weights)
    return replace(places, data_root=data_root(places.data_root).absolute(), weights=weights and weights.absolute())
