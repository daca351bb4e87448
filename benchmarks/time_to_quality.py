"""How long until a picture is as good as the paper's schedule makes it in 1000 iterations?

    python benchmarks/time_to_quality.py [--only femnist]

NL-SME on the paper's schedule, NL-SME with --schedule fast, and span-sme, on clients no default was chosen on, each in
a process of one thread. Their steps are compiled beforehand, on other clients: a machine pays that once, and it would
count against whichever way comes first (`cold_start_seconds`). Needs LEAKSCOPE_DATA and a quiet machine. Writes
results/time_to_quality.json with the curves [[seconds, PSNR], ...]; what benchmarks/quality.py has run in the same
folder counts, a run broken off goes on. With `--only` the other clients stay as the file has them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np

from leakscope.audits.audit import run_cells
from leakscope.cells.record import DONE
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell
from leakscope.data import DATASETS
from leakscope.files import versions, write_json
from leakscope.runs.display import showing
from leakscope.runs.executors import choose_executor
from quality import share

ROOT = Path(__file__).parent.parent
WRITERS = DATASETS["femnist"].reported
CIFAR_SEEDS = (101, 102, 103)
IN_TIME = 0.6
"""Part of the time of the paper's schedule in which a faster one is to get as far."""
WAYS: dict[str, dict[str, Any]] = {
    "paper": {"attacks": ("nl-sme",)},
    "fast": {"attacks": ("nl-sme",), "schedule": "fast"},
    "span-sme": {"attacks": ("span-sme",)},
}


def requests(**options: Any) -> dict[tuple[str, str], Request]:
    """By client and way."""
    clients = {f"femnist {writer}": {"dataset": "femnist", "writer": writer, "seed": int(writer)} for writer in WRITERS}
    clients |= {f"cifar100 {seed}": {"dataset": "cifar100", "seed": seed} for seed in CIFAR_SEEDS}
    return {
        (client, way): Request(**{**given, **chosen, "matching": "global", **options})
        for client, given in clients.items()
        for way, chosen in WAYS.items()
    }


def warm_up(cells: list[Cell]) -> float:
    """Seconds until the compile cache holds the steps of all cells; a few iterations on clients of development."""
    began = time.perf_counter()
    for dataset in sorted({cell.client.dataset for cell in cells}):
        who = {"writer": "1"} if dataset == "femnist" else {}
        for way in ("paper", "fast"):
            request = Request(
                dataset=dataset, seed=1, **who, **WAYS[way], matching="global", iterations=2, compile="on"
            )
            with tempfile.TemporaryDirectory() as folder:
                run_cells(request.cells(), Path(folder), request, execute=choose_executor(workers=1))
    return time.perf_counter() - began


def curve(cell: dict[str, Any]) -> list[list[float]]:
    return [[row["seconds"], row["psnr"]] for row in cell["history"]]


def seconds_until(points: list[list[float]], psnr: float) -> float | None:
    """When a curve first reaches a PSNR, between two of its points; None: never."""
    before = [0.0, 0.0]
    for seconds, value in points:
        if value >= psnr:
            part = (psnr - before[1]) / (value - before[1]) if value > before[1] else 1.0
            return before[0] + part * (seconds - before[0])
        before = [seconds, value]
    return None


def compare(cells: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One client: each way's end, and its time to the PSNR of the paper's schedule as a part of that one's time."""
    goal, whole = cells["paper"]["metrics"]["psnr"], cells["paper"]["seconds"]
    found = {}
    for way, cell in cells.items():
        until = seconds_until(curve(cell), goal)
        found[way] = {
            "psnr": cell["metrics"]["psnr"],
            "seconds": cell["seconds"],
            "above_paper_db": cell["metrics"]["psnr"] - goal,
            "time_to_paper": None if until is None else until / whole,
            "step": cell["notes"].get("step", "eager"),
            "curve": curve(cell),
        }
    return found


def of_the_means(clients: list[dict[str, Any]], way: str) -> float | None:
    """When the mean PSNR over clients reaches that of the paper's schedule, as a part of its time; None: never.

    Single clients end half a decibel up or down by the toss of rounding: a mean says more about a schedule.
    """
    goal = statistics.mean(client["paper"]["psnr"] for client in clients)
    curves = [(*zip(*client[way]["curve"], strict=True), client["paper"]["seconds"]) for client in clients]
    for percent in range(1, 101):
        now = [psnr_at(percent / 100 * whole, seconds, values) for seconds, values, whole in curves]
        if statistics.mean(now) >= goal:
            return percent / 100
    return None


def of_threes(clients: list[dict[str, Any]], way: str) -> dict[str, int]:
    """How many choices of three clients get there in time: whether the mean hangs on who is in it."""
    shares = [of_the_means(list(three), way) for three in combinations(clients, 3)]
    return {"in_time": sum(share is not None and share <= IN_TIME for share in shares), "of": len(shares)}


def psnr_at(moment: float, seconds: tuple[float, ...], values: tuple[float, ...]) -> float:
    """What a curve has reached: nothing before its first point, its end after the last."""
    return float(np.interp(moment, seconds, values, left=0.0))


def summary(clients: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Means over clients; the time is null where a client never got there."""
    found = {}
    sets = {data: [one for name, one in clients.items() if name.startswith(data)] for data in ("femnist", "cifar100")}
    for way in WAYS:
        rows = [client[way] for client in clients.values()]
        times = [row["time_to_paper"] for row in rows]
        found[way] = {
            "above_paper_db": statistics.mean(row["above_paper_db"] for row in rows),
            "worst_db": min(row["above_paper_db"] for row in rows),
            "time_to_paper": None if None in times else statistics.mean(times),
            "time_to_paper_of_means": {data: of_the_means(some, way) for data, some in sets.items()},
            "threes": {data: of_threes(some, way) for data, some in sets.items()},
            "whole_time": statistics.mean(
                row["seconds"] / client["paper"]["seconds"] for row, client in zip(rows, clients.values(), strict=True)
            ),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "bench")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "time_to_quality.json")
    parser.add_argument("--only", default="", help="what a client's name must contain, e.g. femnist")
    parser.add_argument("--compile", choices=("auto", "on", "off"), default="auto")
    chosen = parser.parse_args()
    everything = requests(compile=chosen.compile)
    asked = {key: request.cells()[0] for key, request in everything.items() if chosen.only in key[0]}
    cells = list(asked.values())
    cold = 0.0 if chosen.compile == "off" else warm_up(cells)
    with showing(cells, quiet=False) as notice:
        execute = choose_executor(workers=chosen.workers)
        done = run_cells(cells, share(chosen.runs), Request(), execute=execute, notice=notice)
    records = {record["key"]: record for record in done.cells if record["status"] in DONE}
    if missing := [f"{client} {way}" for (client, way), cell in asked.items() if cell.key not in records]:
        raise SystemExit(f"not finished: {', '.join(missing)}; start again to go on")
    clients: dict[str, dict[str, Any]] = {}
    for (client, way), cell in asked.items():
        clients.setdefault(client, {})[way] = records[cell.key]
    before = json.loads(chosen.out.read_text())["clients"] if chosen.only and chosen.out.exists() else {}
    found = before | {client: compare(cells) for client, cells in clients.items()}
    compared = {client: found[client] for client, _ in everything if client in found}
    result = {
        "versions": versions(),
        "cold_start_seconds": cold,
        "summary": summary(compared),
        "clients": compared,
    }
    write_json(chosen.out, result)
    print(json.dumps(result["summary"], indent=1))


if __name__ == "__main__":
    main()
