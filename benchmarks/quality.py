"""How good are the attacks? Paper's main setting on real clients that were not used to choose any default.

    python benchmarks/quality.py main          nl-sme and span-sme on FEMNIST and CIFAR-100
    python benchmarks/quality.py others        ig and sme there
    python benchmarks/quality.py baselines     the paper's other methods, dlg, ig-official and unrolled, on the same
    python benchmarks/quality.py ablation      trajectory on/off x calibration on/off
    python benchmarks/quality.py span          span-sme against nl-sme in every other setting
    python benchmarks/quality.py parts         span-sme without one of its parts
    python benchmarks/quality.py defenses      the paper's defenses on FEMNIST

Needs LEAKSCOPE_DATA (and LEAKSCOPE_WEIGHTS for LPIPS). Writes results/<suite>.json; a run that was broken off goes on.
Defaults were chosen on FEMNIST writers 1, 2, 7 and on other CIFAR-100 draws.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from leakscope.audit import Request, run_cells
from leakscope.cli.display import showing
from leakscope.paper.results import brief, write_results
from leakscope.runs.executors import choose_executor
from leakscope.runs.store import DONE

WRITERS = ("40", "42", "47", "57", "61")
"""FEMNIST writers with at least 40 different characters among their first 50 samples, no default was chosen on."""
CIFAR_SEEDS = (101, 102, 103, 104, 105)
ROOT = Path(__file__).parent.parent


def femnist(writers: Iterable[str], **options: Any) -> list[Request]:
    return [Request(dataset="femnist", writer=writer, seed=int(writer), **options) for writer in writers]


def cifar(seeds: Iterable[int], **options: Any) -> list[Request]:
    return [Request(dataset="cifar100", seed=seed, **options) for seed in seeds]


def main_suite() -> list[Request]:
    ours = {"attacks": ("span-sme", "nl-sme"), "matching": "global"}
    return [*femnist(WRITERS, **ours), *cifar(CIFAR_SEEDS, **ours)]


def others_suite() -> list[Request]:
    others = {"attacks": ("sme", "ig"), "matching": "global"}
    return [*femnist(WRITERS[:3], **others), *cifar(CIFAR_SEEDS[:3], **others)]


def baselines_suite() -> list[Request]:
    paper = {"attacks": ("fedleak", "gi-nas"), "matching": "global"}
    classics = {"attacks": ("dlg", "ig-official", "fedleak-pixel"), "matching": "global"}
    coarse = {
        "attacks": ("unrolled",),
        "settings": ("unrolled.start=nl-sme",),
        "iterations": 300,
        "matching": "global",
    }
    femnist_clients, cifar_clients = WRITERS[:3], CIFAR_SEEDS[:3]
    return [
        request
        for options in (paper, classics, coarse)
        for request in (*femnist(femnist_clients, **options), *cifar(cifar_clients, **options))
    ]


def ablation_suite() -> list[Request]:
    switches = [("off", "off"), ("off", "on"), ("on", "off"), ("on", "on")]
    return [
        request
        for trajectory, calibration in switches
        for request in femnist(
            WRITERS[:2],
            attacks=("nl-sme",),
            settings=(f"nl-sme.trajectory={trajectory}", f"nl-sme.calibration={calibration}"),
            matching="global",
        )
    ]


def span_suite() -> list[Request]:
    both = {"attacks": ("span-sme", "nl-sme")}
    some = WRITERS[:1]
    return [
        *femnist(WRITERS[:2], epochs=50, **both),
        *femnist(WRITERS[:3], model="mlp", attacks=("span-sme",)),
        *femnist(some, fuse="rho=0.75,clients=4", **both),
        *femnist(some, defenses=("soteria:rate=0.8", "gaussian:std=0.1", "sparsify:rate=0.9"), **both),
        Request(dataset="tiny_imagenet", seed=101, attacks=("span-sme",)),
        *femnist(some, model="vit", attacks=("span-sme",)),
        *femnist(some, model="mlp", attacks=("nl-sme",)),
        *(replace(request, writer="pooled", n=n) for n in (100, 200) for request in femnist(some, **both)),
        *femnist(some, model="vit", attacks=("nl-sme",)),
    ]


def parts_suite() -> list[Request]:
    off = ("trajectory=off", "straighten=off", "span=0", "span=10", "tv=0")
    clients = [partial(femnist, WRITERS[:2]), partial(cifar, CIFAR_SEEDS[:1])]
    return [
        request
        for client in clients
        for setting in off
        for request in client(attacks=("span-sme",), settings=(f"span-sme.{setting}",), matching="global")
    ]


def defenses_suite() -> list[Request]:
    paper = {"attacks": ("nl-sme",)}
    noisy = [f"dpsgd:epsilon={epsilon}" for epsilon in ("1e5", "1e4", "1000", "100", "10")]
    return [
        *femnist(WRITERS[:3], defenses=("clip:bound=4", "sparsify:rate=0.9"), matching="global", **paper),
        *femnist(WRITERS[:3], defenses=("soteria:rate=0.8", "gaussian:std=0.1"), matching="global", **paper),
        *femnist(WRITERS[:3], defenses=("soteria:rate=0.8", "gaussian:std=0.1"), **paper),
        *femnist(WRITERS[:3], defenses=noisy, matching="global", **paper),
        *cifar(CIFAR_SEEDS[:1], fuse="rho=0.75,clients=4", attacks=("sme", "nl-sme"), matching="global"),
    ]


SUITES = {
    "main": main_suite,
    "others": others_suite,
    "baselines": baselines_suite,
    "ablation": ablation_suite,
    "span": span_suite,
    "parts": parts_suite,
    "defenses": defenses_suite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES, nargs="?", default="main")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    chosen = parser.parse_args()
    cells = list({cell.key: cell for request in SUITES[chosen.suite]() for cell in request.cells()}.values())
    with showing(cells, quiet=False) as notice:
        done = run_cells(
            cells,
            chosen.runs / f"bench-{chosen.suite}",
            Request(),
            execute=choose_executor(workers=chosen.workers),
            command=f"python benchmarks/quality.py {chosen.suite}",
            notice=notice,
        )
    records = {record["key"]: record for record in done.result["cells"]}
    rows = [brief(records[cell.key], cell) for cell in cells if records.get(cell.key, {}).get("status") in DONE]
    command = f"python benchmarks/quality.py {chosen.suite}"
    write_results(ROOT / "results" / f"{chosen.suite}.json", rows, command=command, versions=done.result["versions"])
    json.dump({"cells": len(rows), "results": f"results/{chosen.suite}.json"}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
