"""Positive controls: settings in which a method must succeed if it was built right.

    python benchmarks/controls.py [NAME ...]

A small smooth net, four of the embedded photographs. FedLeak and GI-NAS get a single full-batch gradient of a net with
sigmoids, as their authors do; the simulation attack five steps of one with tanh, in the client's own order. Writes
results/controls.json and exits with 1 where one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import nn

from leakscope import data
from leakscope.attacks.baselines import fedleak, gi_nas, unrolled
from leakscope.attacks.calculus import Autograd
from leakscope.attacks.engine import Attack
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Cosine
from leakscope.attacks.passes import Passes
from leakscope.attacks.unrolled import Unrolled
from leakscope.client.training import Client, batches, train
from leakscope.files import write_json
from leakscope.metrics import assign
from leakscope.metrics.psnr import psnr
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge, LocalTraining, Reconstruction
from leakscope.victims import Victim

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


def smooth_net(shape: tuple[int, int, int], classes: int, units: type[nn.Module]) -> nn.Module:
    """The layers of CNNmnist without its kinks."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 32, 3, padding=1),
        units(),
        nn.AvgPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        units(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (shape[1] // 4) * (shape[2] // 4), 100),
        units(),
        nn.Linear(100, classes),
    )


def scene(units: type[nn.Module], **training: Any) -> tuple[Client, Observation]:
    """Four photographs in the order of their labels, which is the order in which the attacker gets them."""
    photos = data.load("photos")
    batch = data.draw_client(photos, n=4, seed=3)
    order = batch.labels.argsort(stable=True)
    batch = replace(batch, images=batch.images[order], labels=batch.labels[order])
    torch.manual_seed(0)
    victim = Victim("smooth", smooth_net(photos.shape, photos.classes, units).eval(), photos.shape, photos.classes)
    client = Client(victim, batch, LocalTraining(**training))
    update = train(client, victim.weights())
    seen = observe(update, victim, knowledge=Knowledge(), normalisation=batch.normalisation, labels=batch.labels)
    return client, seen


def run(attack: Attack, client: Client, seen: Observation, iterations: int) -> tuple[Reconstruction, Row]:
    began = time.process_time()
    found = replace(attack, iterations=iterations)(seen)
    originals = client.batch.images
    row = {
        "psnr": float(psnr(originals, found.images[list(assign(originals, found.images))]).mean()),
        "l_sim": found.l_sim,
        "iterations": iterations,
        "cpu_seconds": round(time.process_time() - began, 1),
        "attack": repr(attack),
    }
    return found, row


def generator() -> Row:
    """FedLeak, as published, exceeds 20 dB."""
    _, row = run(fedleak(tv=1e-5), *scene(nn.Sigmoid, epochs=1, batch_size=4, lr=0.01), 400)
    return row | {"passed": row["psnr"] > 20}


def search() -> Row:
    """GI-NAS, as published, exceeds 20 dB, with a candidate that scores better than the median one."""
    found, row = run(gi_nas(candidates=20, tv=0.0), *scene(nn.Sigmoid, epochs=1, batch_size=4, lr=0.01), 200)
    chosen: Any = found.notes["search"]
    return row | {"search": chosen, "passed": row["psnr"] > 20 and chosen["score"] < chosen["median"]}


def simulation() -> Row:
    """In the true order, the true images explain five steps to 1e-4 and are found above 30 dB from a warm start."""
    client, seen = scene(nn.Tanh, epochs=5, batch_size=4, lr=0.05)
    order = tuple(tuple(batch.tolist()) for batch in batches(4, client.training, seed=client.seed))
    part = Unrolled(steps="full", order=order)
    known = Known.of(seen, torch.device("cpu"))
    x = client.batch.normalisation.apply(client.batch.images)
    (*update, _), _ = part.linearise({}, known, (x,), Passes(known, Autograd()))
    truth = float(Cosine().distance(known.join(update), known))
    attack = replace(unrolled(steps="full", tv=0.0, start="nl-sme", share=0.5), surrogate=part)
    _, row = run(attack, client, seen, 600)
    return row | {"l_sim_of_the_truth": truth, "passed": truth < 1e-4 and row["psnr"] > 30}


CONTROLS: dict[str, Callable[[], Row]] = {"fedleak": generator, "gi-nas": search, "unrolled": simulation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CONTROLS))
    names = parser.parse_args().names or list(CONTROLS)
    torch.set_num_threads(1)
    place = ROOT / "results" / "controls.json"
    rows: dict[str, Row] = json.loads(place.read_text())["controls"] if place.exists() else {}
    for name in names:
        rows[name] = {"claim": CONTROLS[name].__doc__, **CONTROLS[name]()}
        print(name, json.dumps({key: rows[name][key] for key in ("passed", "psnr", "l_sim", "cpu_seconds")}))
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        rows[name]["commit"] = commit.stdout.strip()
        write_json(place, {"command": "python benchmarks/controls.py", "controls": rows})
    sys.exit(0 if all(row["passed"] for row in rows.values()) else 1)


if __name__ == "__main__":
    main()
