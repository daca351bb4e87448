"""How good could SME be? Its objective, started from the private images themselves, which no attacker has.

    python benchmarks/ceiling.py [--only cifar100] [--workers 2]

Where such a start ends no better than one from noise, or no lower in L_sim, no optimiser can help: what is missing is
in the objective. The pixels' rate is a hundredth of the usual one, so that a run settles where it is instead of
jumping away. Needs LEAKSCOPE_DATA. Writes results/ceiling.json; the runs from noise are those of
`quality.py others`. With `--only` the other clients stay as the file has them.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rich.progress import track
from torch import Tensor

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known
from leakscope.attacks.recipes import RATE
from leakscope.cells.request import Request
from leakscope.cells.run import compose, stage
from leakscope.files import commit, versions, write_json
from leakscope.metrics import assign
from leakscope.metrics.psnr import psnr
from quality import CIFAR_SEEDS, WRITERS, cifar, femnist

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class StartAt:
    """The images where the loop starts instead of noise, (N, C, H, W) in [0, 1]."""

    images: Tensor

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        start = known.normalisation.apply(self.images).to(known.w0)
        return replace(attack, images=replace(attack.images, start=start)), known, {}


def requests() -> list[Request]:
    slow = {"attacks": ("sme",), "settings": (f"sme.lr={RATE / 100:g}",), "matching": "global"}
    return [*femnist(WRITERS, **slow), *cifar(CIFAR_SEEDS[:5], **slow)]


def name(request: Request) -> str:
    return f"{request.dataset} {request.writer or request.seed}"


def run(request: Request) -> dict[str, Any]:
    """One client from its own images, in the order of the labels that the attacker is given."""
    cell = request.cells()[0]
    scene = stage(cell, data_root=None)
    assert scene.truth is not None
    private = scene.truth.batch.images[scene.truth.batch.labels.argsort(stable=True)]
    attack = compose(cell)
    found = replace(attack, adaptations=(*attack.adaptations, StartAt(private)))(
        scene.observation, seed=cell.client.seed
    )
    pairs = psnr(private, found.images[list(assign(private, found.images))])
    return {"psnr": float(pairs.mean()), "l_sim": found.l_sim, "objective": found.objective, "commit": commit()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "ceiling.json")
    parser.add_argument("--only", default="", help="what a client's name must contain, e.g. femnist")
    chosen = parser.parse_args()
    asked = [request for request in requests() if chosen.only in name(request)]
    found = json.loads(chosen.out.read_text())["clients"] if chosen.only and chosen.out.exists() else {}
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        for request, row in track(zip(asked, pool.map(run, asked), strict=True), "clients", total=len(asked)):
            found[name(request)] = row
            print(f"{name(request)}: {row['psnr']:.2f} dB, L_sim {row['l_sim']:.4f}", flush=True)
    write_json(chosen.out, {"versions": versions(), "clients": found})


if __name__ == "__main__":
    main()
