"""invert against span-sme on nets that people train, on clients that chose nothing which is reported here.

    python benchmarks/inversion.py [CLIENT ...] [--seeds 1,2,3] [--attacks invert,span-sme]

Tiny-ImageNet at 64 pixels with ten classes, CIFAR-100 at 32, and one writer of FEMNIST, from LEAKSCOPE_DATA. One core;
`seconds` are those of the processor, so that other work on the machine counts little. What is in results/inversion.json
already stays, with the commit that made it, unless --again is given.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import nn

from leakscope import data
from leakscope.attacks import build_attack
from leakscope.client.own import LocalClient
from leakscope.client.training import train
from leakscope.files import commit, read_object, write_json
from leakscope.metrics.score import score
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge, LocalTraining
from leakscope.victims import build_victim

PLACE = Path(__file__).parent.parent / "results" / "inversion.json"
CANDIDATES = 500
Net = Callable[[int], nn.Module]


def strided(classes: int, *, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    """Three strided convolutions with batch norm for 64 pixels."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), activation()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 64), nn.ReLU(), nn.Linear(64, classes))


def deeper(classes: int) -> nn.Module:
    """Four of them: a feature map of 4x4."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 96), (96, 128)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 64), nn.ReLU(), nn.Linear(64, classes))


def leaky(classes: int) -> nn.Module:
    return strided(classes, activation=lambda: nn.LeakyReLU(0.1))


def strides(classes: int) -> nn.Module:
    """Two strided 5x5 convolutions for 32 pixels."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 64, 96),
        nn.ReLU(),
        nn.Linear(96, classes),
    )


def averages(classes: int) -> nn.Module:
    """Two convolutions with average pooling."""
    return nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(48, 96, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96 * 64, 80),
        nn.ReLU(),
        nn.Linear(80, classes),
    )


def narrowing(classes: int) -> nn.Module:
    """Strided 4x4 and 3x3 convolutions, batch norm in between."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 4, stride=2, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 96, 3, padding=1),
        nn.BatchNorm2d(96),
        nn.ReLU(),
        nn.Conv2d(96, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * 64, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def maxima(classes: int) -> nn.Module:
    """Two 5x5 convolutions with maximum pooling."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 64, 100),
        nn.ReLU(),
        nn.Linear(100, classes),
    )


def registered(name: str, shape: tuple[int, int, int]) -> Net:
    return lambda classes: build_victim(name, shape=shape, classes=classes).module


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A client as somebody might have it."""

    net: Net
    n: int
    dataset: str = "cifar100"
    classes: int | None = None
    """So many, by the remainder of the label; None: the data set's own."""
    training: dict[str, Any] = field(default_factory=dict)

    def scene(self, seed: int) -> tuple[LocalClient, Observation]:
        found = data.load(self.dataset)
        batch = data.draw_client(found, n=self.n, seed=seed)
        own = LocalClient(
            model=lambda: self.net(self.classes or batch.classes),
            images=batch.images,
            labels=batch.labels if self.classes is None else batch.labels % self.classes,
            classes=self.classes or batch.classes,
            training=LocalTraining(**{"epochs": 2, "batch_size": 8, "lr": 0.01, **self.training}),
            normalisation=batch.normalisation,
            candidates=data.held_out(found, avoid=batch, count=CANDIDATES, seed=seed),
        )
        client = own.client(seed)
        update = train(client, client.victim.weights())
        seen = observe(
            update,
            client.victim,
            knowledge=Knowledge(),
            normalisation=client.batch.normalisation,
            labels=client.batch.labels,
        )
        return own, seen


def tiny(net: Net, n: int, **training: Any) -> Setting:
    return Setting(net=net, n=n, dataset="tiny_imagenet", classes=10, training=training)


MAIN = {"epochs": 20, "batch_size": 10, "lr": 0.004}
CLIENTS: dict[str, Setting] = {
    "strided, N=8": tiny(strided, 8),
    "strided, N=40": tiny(strided, 40),
    "deeper, N=8": tiny(deeper, 8),
    "deeper, N=40": tiny(deeper, 40),
    "strides, N=36": Setting(net=strides, n=36),
    "strides, N=48": Setting(net=strides, n=48),
    "averages, N=40": Setting(net=averages, n=40),
    "narrowing, N=64": Setting(net=narrowing, n=64),
    "maxima, N=36": Setting(net=maxima, n=36),
    "strided, N=8, momentum": tiny(strided, 8, momentum=0.9),
    "strided, N=8, train mode": tiny(strided, 8, mode="train"),
    "main CIFAR-100": Setting(net=registered("cnn-cifar", (3, 32, 32)), n=50, training=MAIN),
    "main FEMNIST": Setting(net=registered("cnn-mnist", (1, 28, 28)), n=50, dataset="femnist", training=MAIN),
    "strided, N=60": tiny(strided, 60),
    "strided, N=40, E=10, train mode": tiny(strided, 40, epochs=10, batch_size=10, mode="train"),
    "strided, N=8, Adam": tiny(strided, 8, optimizer="adam", lr=0.001),
    "leaky, N=8": tiny(leaky, 8),
}


def measure(setting: Setting, name: str, seed: int) -> dict[str, Any]:
    own, seen = setting.scene(seed)
    attack = replace(build_attack(name, {}, matching="auto"), compile="off")
    began = time.process_time()
    found = attack(seen, seed=seed)
    seconds = time.process_time() - began
    scores = score(own.client(seed).batch.images, found, candidates=own.held_out(), download=False)
    psnr = [value for value in scores.per_image["psnr"] if value is not None]
    return {
        "n": setting.n,
        "psnr": round(float(scores.metrics["psnr"] or 0), 2),
        "worst": round(min(psnr), 2),
        "guess": round(float(scores.baseline["psnr"] or 0), 2),
        "identified": round(float(scores.metrics["identified"] or 0) * setting.n),
        "seconds": round(seconds, 1),
        "iterations": found.iterations,
        "notes": {key: str(value) for key, value in found.notes.items() if key in ("inversion", "span")},
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="; ".join(CLIENTS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--attacks", default="invert,span-sme")
    parser.add_argument("--again", action="store_true", help="measure what is there once more")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for seed in map(int, asked.seeds.split(",")):
        for client in asked.clients or CLIENTS:
            for attack in asked.attacks.split(","):
                rows = read_object(PLACE)["rows"] if PLACE.exists() else {}
                key = f"{client} / {attack} / {seed}"
                if key not in rows or asked.again:
                    rows[key] = measure(CLIENTS[client], attack, seed)
                    print(key, json.dumps(rows[key]), flush=True)
                    write_json(PLACE, {"command": "python benchmarks/inversion.py", "rows": rows})


if __name__ == "__main__":
    main()
