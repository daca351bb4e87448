"""What one attack step costs: ratios to a plain training step on the same batch, measured interleaved in one run.

    python benchmarks/step.py [--model cnn-cifar] [--rounds 12] [--json]

Also the peak memory of SME and NL-SME, each in a process of its own, in copies of the model. Random data: no data root
is needed. Writes results/step.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch.nn import functional

from leakscope.attacks.engine import Attack, Descent
from leakscope.attacks.known import Known
from leakscope.attacks.recipes import ig, nl_sme, sme, span_sme
from leakscope.client import Client, train
from leakscope.memory import peak_memory_mb, reset_peak_memory
from leakscope.observation import Observation, observe
from leakscope.runs.atomic import write_json
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation
from leakscope.victims import build_victim

SHAPES = {"cnn-cifar": ((3, 32, 32), 100), "cnn-mnist": ((1, 28, 28), 62)}
ATTACKS: dict[str, Callable[[], Attack]] = {"ig": ig, "sme": sme, "nl-sme": nl_sme, "span-sme": span_sme}


def scene(model: str, n: int) -> Observation:
    """A client with random images that has trained for one epoch."""
    shape, classes = SHAPES[model]
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, *shape, generator=generator)
    labels = torch.randint(classes, (n,), generator=generator)
    normalisation = Normalisation((0.5,) * shape[0], (0.25,) * shape[0])
    batch = ClientBatch(images, labels, classes, normalisation, "random")
    client = Client(build_victim(model, shape=shape, classes=classes), batch, LocalTraining(epochs=1, lr=0.01))
    update = train(client, client.victim.weights())
    return observe(update, client.victim, knowledge=Knowledge(), normalisation=normalisation, labels=labels)


def plain_step(known: Known) -> Callable[[], object]:
    """Forward and backward of ordinary training on the same batch."""
    x = torch.randn(known.n, *known.shape)

    def step() -> object:
        weights = {name: value.detach().requires_grad_() for name, value in known.split(known.w0).items()}
        loss = functional.cross_entropy(torch.func.functional_call(known.module, weights, (x,)), known.labels)
        return torch.autograd.grad(loss, list(weights.values()))

    return step


def descent(name: str, observation: Observation) -> Descent:
    attack, known, _ = ATTACKS[name]().adapt(Known.of(observation, torch.device("cpu")))
    return Descent(attack, known, None, seed=0, state=None)


def ratios(model: str, n: int, rounds: int) -> dict[str, float]:
    """Median over rounds of each attack's step time divided by the plain step's of the same round."""
    observation = scene(model, n)
    runs = {name: descent(name, observation) for name in ATTACKS}
    steps: dict[str, Callable[[], object]] = {"plain": plain_step(runs["sme"].known)}
    steps |= {name: run.step for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(rounds + 1):
        for name, step in steps.items():
            began = time.process_time()
            step()
            if round_:
                times[name].append(time.process_time() - began)
    result = {
        name: statistics.median(mine / plain for mine, plain in zip(times[name], times["plain"], strict=True))
        for name in ATTACKS
    }
    return result | {"plain_ms": 1000 * statistics.median(times["plain"])}


def peak(name: str, model: str, n: int) -> float:
    """Peak memory in MB of ten steps, in this process."""
    run = descent(name, scene(model, n))
    reset_peak_memory("cpu")
    for _ in range(10):
        run.step()
    return peak_memory_mb("cpu")


def peak_apart(name: str, model: str, n: int) -> float:
    command = [sys.executable, __file__, "--peak", name, "--model", model, "--n", str(n)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="cnn-cifar")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--peak", choices=ATTACKS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.peak:
        print(peak(chosen.peak, chosen.model, chosen.n))
        return
    found = ratios(chosen.model, chosen.n, chosen.rounds)
    copy = 4 * sum(size.numel() for size in scene(chosen.model, 10).victim.sizes.values()) / 2**20
    memory = {name: peak_apart(name, chosen.model, chosen.n) for name in ("sme", "nl-sme")}
    result = {
        "command": f"python benchmarks/step.py --model {chosen.model} --n {chosen.n}",
        "model": chosen.model,
        "n": chosen.n,
        "rounds": chosen.rounds,
        "ratio_to_plain_step": found,
        "model_copy_mb": copy,
        "peak_mb": memory,
        "extra_copies_of_nl_sme": (memory["nl-sme"] - memory["sme"]) / copy,
    }
    write_json(Path(__file__).parent.parent / "results" / f"step-{chosen.model}.json", result)
    print(json.dumps(result) if chosen.json else "\n".join(f"{name:24} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
