"""How good are the attacks? Paper's main setting on real clients that were not used to choose any default.

    python benchmarks/quality.py main          nl-sme and span-sme on FEMNIST and CIFAR-100
    python benchmarks/quality.py others        ig and sme there
    python benchmarks/quality.py baselines     fedleak and gi-nas there
    python benchmarks/quality.py diffusion     dggi there; needs priors/femnist and priors/cifar100 (docs/prior.md)
    python benchmarks/quality.py classics      dlg, ig-official, fedleak-pixel and unrolled there
    python benchmarks/quality.py ablation      trajectory on/off x calibration on/off
    python benchmarks/quality.py span          span-sme against nl-sme in every other setting
    python benchmarks/quality.py parts         span-sme without one of its parts
    python benchmarks/quality.py defenses      the paper's defenses on FEMNIST
    python benchmarks/quality.py labels        labels recovered from the update
    python benchmarks/quality.py memory        --memory low, and a thousand images at once
    python benchmarks/quality.py fast          --schedule fast (for time_to_quality.py)
    python benchmarks/quality.py eager         nl-sme without its compiled step

Several suites may be named: a cell that is in two of them runs once. `--only femnist` runs the cells on FEMNIST alone,
`--only seed 101` those of one client; what results/ hold of the others stays, with the commit that made it. Needs
LEAKSCOPE_DATA (and LEAKSCOPE_WEIGHTS for LPIPS). Writes results/<suite>.json; a run that was broken off goes on.
Defaults were chosen on FEMNIST writers 1, 2, 3, 7, 15, 23 and on other draws of CIFAR-100 and Tiny-ImageNet.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakscope.audits.audit import run_cells
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell
from leakscope.data import DATASETS
from leakscope.files import commit, write_json
from leakscope.paper.grid import CPU_ITERATIONS
from leakscope.paper.results import Row, brief, read_file, same, write_results
from leakscope.runs.display import showing
from leakscope.runs.executors import choose_executor

REPORTED = DATASETS["femnist"].reported
WRITERS = REPORTED[:5]
CIFAR_SEEDS = tuple(range(101, 109))
ROOT = Path(__file__).parent.parent
PRIORS = ROOT / "priors"


def femnist(writers: Iterable[str], **options: Any) -> list[Request]:
    return [Request(dataset="femnist", writer=writer, seed=int(writer), **options) for writer in writers]


def cifar(seeds: Iterable[int], **options: Any) -> list[Request]:
    return [Request(dataset="cifar100", seed=seed, **options) for seed in seeds]


def main_suite() -> list[Request]:
    ours = {"attacks": ("span-sme", "nl-sme"), "matching": "global"}
    return [*femnist(REPORTED, **ours), *cifar(CIFAR_SEEDS, **ours)]


def others_suite() -> list[Request]:
    both = {"attacks": ("sme", "ig"), "matching": "global"}
    return [*femnist(REPORTED, **both), *cifar(CIFAR_SEEDS, **both)]


def baselines_suite() -> list[Request]:
    paper = {"attacks": ("fedleak", "gi-nas"), "iterations": CPU_ITERATIONS["fedleak"], "matching": "global"}
    return [*femnist(WRITERS[:3], **paper), *cifar(CIFAR_SEEDS[:3], **paper)]


def classics_suite() -> list[Request]:
    classics = {"attacks": ("dlg", "ig-official", "fedleak-pixel"), "matching": "global"}
    coarse = {
        "attacks": ("unrolled",),
        "settings": ("unrolled.start=nl-sme",),
        "iterations": 300,
        "matching": "global",
    }
    return [
        request
        for options in (classics, coarse)
        for request in (*femnist(WRITERS[:1], **options), *cifar(CIFAR_SEEDS[:1], **options))
    ]


def diffusion_suite() -> list[Request]:
    dggi = {"attacks": ("dggi",), "matching": "global"}
    return [
        *femnist(WRITERS[:3], prior=str(PRIORS / "femnist"), **dggi),
        *cifar(CIFAR_SEEDS[:3], prior=str(PRIORS / "cifar100"), **dggi),
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
        *femnist(WRITERS[:3], model="mlp", attacks=("span-sme",)),
        *(Request(dataset="tiny_imagenet", seed=seed, attacks=("span-sme",)) for seed in (101, 102, 103)),
        *femnist(WRITERS[:2], epochs=50, **both),
        *femnist(some, fuse="rho=0.75,clients=4", **both),
        *femnist(some, defenses=("soteria:rate=0.8", "gaussian:std=0.1", "sparsify:rate=0.9"), **both),
        *(replace(request, writer="pooled", n=n) for n in (100, 200) for request in femnist(some, **both)),
        *femnist(some, model="mlp", attacks=("nl-sme",)),
        *femnist(some, model="vit", iterations=300, **both),
    ]


def parts_suite() -> list[Request]:
    off = ("trajectory=off", "straighten=off", "span=0", "span=10", "tv=0")
    return [
        request
        for setting in off
        for request in femnist(WRITERS[:2], attacks=("span-sme",), settings=(f"span-sme.{setting}",), matching="global")
    ]


def defenses_suite() -> list[Request]:
    three, paper = WRITERS[:3], {"attacks": ("nl-sme",), "matching": "global"}
    return [
        *cifar(CIFAR_SEEDS[:1], fuse="rho=0.75,clients=4", attacks=("sme", "nl-sme"), matching="global"),
        *femnist(three, defenses=("soteria:rate=0.8", "gaussian:std=0.1"), **paper),
        *femnist(three, defenses=("soteria:rate=0.8", "gaussian:std=0.1", "sparsify:rate=0.9"), attacks=("nl-sme",)),
        *femnist(three, defenses=("clip:bound=4", "sparsify:rate=0.9", "drop:rate=0.9"), **paper),
        *femnist(three, defenses=[f"dpsgd:epsilon={epsilon}" for epsilon in ("1e5", "1000", "10")], **paper),
    ]


def labels_suite() -> list[Request]:
    return femnist(WRITERS[:3], attacks=("nl-sme",), labels="recovered", matching="global")


def memory_suite() -> list[Request]:
    paper = {"attacks": ("nl-sme",), "matching": "global"}
    pooled = Request(dataset="femnist", writer="pooled", seed=40, n=1000, iterations=20, **paper)
    return [*femnist(WRITERS[:3], memory="low", **paper), pooled]


def fast_suite() -> list[Request]:
    fast = {"attacks": ("nl-sme",), "matching": "global", "schedule": "fast"}
    return [*femnist(WRITERS[:3], **fast), *cifar(CIFAR_SEEDS[:3], **fast)]


def eager_suite() -> list[Request]:
    return femnist(REPORTED, attacks=("nl-sme",), matching="global", compile="off")


SUITES = {
    "main": main_suite,
    "others": others_suite,
    "baselines": baselines_suite,
    "diffusion": diffusion_suite,
    "classics": classics_suite,
    "ablation": ablation_suite,
    "span": span_suite,
    "parts": parts_suite,
    "defenses": defenses_suite,
    "labels": labels_suite,
    "memory": memory_suite,
    "fast": fast_suite,
    "eager": eager_suite,
}


def share(folder: Path) -> Path:
    """A run folder in which every suite finds the cells of the others; an audit would refuse such a mixture."""
    if (folder / "plan.json").exists():
        write_json(folder / "plan.json", {"cells": []})
    return folder


def rows_of(suite: Iterable[Cell], records: Mapping[str, Any], path: Path) -> list[Row]:
    """What was run now, and what the file holds of cells that were not, as long as their settings mean the same."""
    before = {row["key"]: row for row in read_file(path)} if path.exists() else {}
    found = []
    for cell in suite:
        old, record = before.get(cell.key), records.get(cell.key)
        if record is not None and (old is None or old["seconds"] != record.seconds):
            found.append({**brief(record, cell), "commit": commit()})
        elif old is not None and same(old, cell):
            found.append(old)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", choices=SUITES, nargs="*", default=["main"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="words that a cell's description must contain, e.g. femnist")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "bench")
    chosen = parser.parse_args()
    suites = {name: [cell for request in SUITES[name]() for cell in request.cells()] for name in chosen.suites}
    cells = list({cell.key: cell for suite in suites.values() for cell in suite if chosen.only in str(cell)}.values())
    command = f"python benchmarks/quality.py {' '.join(suites)}"
    with showing(cells, quiet=False) as notice:
        execute = choose_executor(workers=chosen.workers)
        done = run_cells(cells, share(chosen.runs), Request(), execute=execute, command=command, notice=notice)
    records = {record.key: record for record in done.records if record.done}
    for name, suite in suites.items():
        path, command = ROOT / "results" / f"{name}.json", f"python benchmarks/quality.py {name}"
        rows = rows_of(suite, records, path)
        write_results(path, rows, command=command, versions=done.result["versions"])
        print(f"results/{name}.json: {len(rows)} of {len(suite)} cells")


if __name__ == "__main__":
    main()
