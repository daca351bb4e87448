"""What the runner costs: two workers against one on a grid of 16 cells, and the time a cell spends outside its attack.

    python benchmarks/runner.py [--iterations 150] [--out FOLDER]

Needs no data: the cells are embedded photographs. For a quiet machine with two cores. Writes results/runner.json.

`speedup` is wall time with one worker over wall time with two, both with the start of the processes. `overhead` pairs
cells run by the runner (folder, events, checkpoints, preview, record) with the same cells run bare, in turn and in one
process: the median over eight cells of the difference of process times divided by the bare time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from leakscope.cells.request import Request
from leakscope.cells.run import run_cell
from leakscope.cells.spec import Cell
from leakscope.files import versions, write_json
from leakscope.runs.local import run_in_processes, work
from leakscope.runs.places import Places
from leakscope.runs.store import Run

ROOT = Path(__file__).parent.parent
CELLS = 16
PAIRS = 8


def grid(iterations: int) -> list[Cell]:
    return Request(n=10, epochs=2, attacks=("sme",), iterations=iterations, clients=CELLS).cells()


def with_workers(cells: list[Cell], out: Path, workers: int) -> float:
    """Wall seconds of the whole grid."""
    run = Run.open(out / f"workers-{workers}", cells, command="benchmark")
    progress(f"{len(cells)} cells with {workers} worker(s)")
    began = time.perf_counter()
    if not run_in_processes(run, cells, Places(), workers=workers, notice=lambda _: None):
        sys.exit("interrupted")
    seconds = time.perf_counter() - began
    progress(f"{len(cells)} cells with {workers} worker(s): {seconds:.0f} s")
    return seconds


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def process_seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def overhead(cells: list[Cell], out: Path) -> list[float]:
    """For each cell, what the runner adds to it as a part of the bare cell; which of the two comes first alternates."""
    torch.set_num_threads(1)
    run = Run.open(out / "overhead", cells, command="benchmark")
    run_cell(cells[0])  # what is only paid once per process
    parts = []
    for place, cell in enumerate(cells):

        def bare(cell: Cell = cell) -> object:
            return run_cell(cell)

        def kept(cell: Cell = cell) -> object:
            return work(run, cell, Places(), stopped=lambda: False)

        first, second = (bare, kept) if place % 2 else (kept, bare)
        times = {first: process_seconds(first), second: process_seconds(second)}
        parts.append(times[kept] / times[bare] - 1)
        progress(
            f"overhead, cell {place + 1} of {len(cells)}: {times[bare]:.1f} s bare, {parts[-1]:+.1%} by the runner"
        )
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "runner.json")
    chosen = parser.parse_args()
    cells = grid(chosen.iterations)
    folder = Path(tempfile.mkdtemp(prefix="leakscope-runner-"))
    try:
        seconds = {workers: with_workers(cells, folder, workers) for workers in (1, 2)}
        parts = overhead(cells[:PAIRS], folder)
    finally:
        shutil.rmtree(folder)
    result = {
        "command": f"python benchmarks/runner.py --iterations {chosen.iterations}",
        "versions": versions(),
        "cores": os.cpu_count(),
        "seconds": {str(workers): value for workers, value in seconds.items()},
        "speedup": seconds[1] / seconds[2],
        "overhead": statistics.median(parts),
        "overheads": parts,
    }
    write_json(chosen.out, result)
    print(json.dumps({name: result[name] for name in ("seconds", "speedup", "overhead")}))


if __name__ == "__main__":
    main()
