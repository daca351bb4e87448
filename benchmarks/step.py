"""What one NL-SME step costs: ratios to a plain training step on the same batch, measured interleaved in one run.

    python benchmarks/step.py [--model cnn-cifar] [--n 50] [--rounds 12] [--json]

`ours` is the step as a long attack runs it (compiled), `ours_eager` the same uncompiled, `eager` a straightforward
step as a research script has it: one autograd graph through equations 6 to 11 and Adam. One thread, random data, no
data root. Also the peak memory of SME and NL-SME, each in a process of its own, in copies of the model, without what
malloc keeps for later. `compile_seconds` is without anything from the compile cache. Writes results/step-MODEL.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.attacks.compiled import Evaluator
from leakscope.attacks.descent import Descent
from leakscope.attacks.engine import Attack
from leakscope.attacks.fitting import low_memory
from leakscope.attacks.known import Known
from leakscope.attacks.memory import peak_memory_mb, reset_peak_memory
from leakscope.attacks.recipes import ig, nl_sme, sme, span_sme
from leakscope.client.training import Client, train
from leakscope.files import write_json
from leakscope.observation.firewall import Observation, observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation
from leakscope.victims import build_victim

SHAPES = {"cnn-cifar": ((3, 32, 32), 100), "cnn-mnist": ((1, 28, 28), 62)}
ATTACKS: dict[str, Callable[[], Attack]] = {"ig": ig, "sme": sme, "nl-sme": nl_sme, "span-sme": span_sme}
PEAKS = ("sme", "nl-sme", "nl-sme-low")
Step = Callable[[], object]


def scene(model: str, n: int, *, shape: tuple[int, int, int] | None = None) -> Observation:
    """A client with random images that has trained for one epoch."""
    usual, classes = SHAPES[model]
    shape = shape or usual
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, *shape, generator=generator)
    labels = torch.randint(classes, (n,), generator=generator)
    normalisation = Normalisation((0.5,) * shape[0], (0.25,) * shape[0])
    batch = ClientBatch(images, labels, classes, normalisation, "random")
    client = Client(build_victim(model, shape=shape, classes=classes), batch, LocalTraining(epochs=1, lr=0.01))
    update = train(client, client.victim.weights())
    return observe(update, client.victim, knowledge=Knowledge(), normalisation=normalisation, labels=labels)


def plain_step(known: Known, module: nn.Module) -> Step:
    """Forward and backward of ordinary training on the same batch."""
    x = torch.randn(known.n, *known.shape)

    def step() -> object:
        weights = {name: value.detach().requires_grad_() for name, value in known.split(known.w0).items()}
        loss = functional.cross_entropy(torch.func.functional_call(module, weights, (x,)), known.labels)
        return torch.autograd.grad(loss, list(weights.values()))

    return step


def straightforward_step(known: Known, module: nn.Module) -> Step:
    """NL-SME as one writes it down from the paper: eqs. 6 to 11 in one graph, then Adam and the clamps."""
    w0, wT, delta = ({k: v.clone() for k, v in known.split(w).items()} for w in (known.w0, known.wT, known.delta))
    low, high = known.normalisation.box(known.w0)
    x = torch.randn(known.n, *known.shape).requires_grad_()
    t = torch.tensor(0.5, requires_grad=True)
    p1 = {k: ((w0[k] + wT[k]) / 2).requires_grad_() for k in w0}
    mid = {k: p.detach().clone() for k, p in p1.items()}
    d = {k: torch.ones_like(v).requires_grad_() for k, v in w0.items()}
    groups = [([x], 1.0), ([t], 1e-3), (list(p1.values()), 1e-3), (list(d.values()), 1e-3)]
    optimiser = torch.optim.Adam([{"params": params, "lr": lr} for params, lr in groups])

    def flat(tensors: dict[str, Tensor]) -> Tensor:
        return torch.cat([value.flatten() for value in tensors.values()])

    def step() -> object:
        optimiser.zero_grad()
        w = {k: (1 - t) ** 2 * w0[k] + 2 * t * (1 - t) * p1[k] + t**2 * wT[k] for k in w0}
        loss = functional.cross_entropy(torch.func.functional_call(module, w, (x,)), known.labels)
        g = dict(zip(w, torch.autograd.grad(loss, list(w.values()), create_graph=True), strict=True))
        l_sim = 1 - functional.cosine_similarity(flat({k: d[k] * g[k] for k in g}), flat(delta), dim=0)
        tv = (x[..., 1:] - x[..., :-1]).abs().mean() + (x[..., 1:, :] - x[..., :-1, :]).abs().mean()
        r_p = sum((p1[k] - mid[k]).square().sum() for k in p1)
        r_d = sum((d[k] - 1).square().sum() for k in d)
        (l_sim + 0.01 * tv / 2 + 1e-2 * r_p + 1e-5 * r_d).backward()
        optimiser.step()
        with torch.no_grad():
            x.copy_(torch.maximum(torch.minimum(x, high), low))
            t.clamp_(0, 1)
            for value in d.values():
                value.clamp_(0.1, 10)
        return l_sim

    return step


def descent(attack: Attack, observation: Observation, *, compiled: bool = False) -> Descent:
    adapted, known, _ = attack.adapt(Known.of(observation, torch.device("cpu")))
    return Descent(adapted, known, None, seed=0, state=None, evaluate=Evaluator(compiling=compiled))


def interleaved(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds of every step in every round, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(rounds + 1):
        for name, step in steps.items():
            began = time.process_time()
            step()
            if round_:
                times[name].append(time.process_time() - began)
    return times


def ratios(model: str, n: int, rounds: int) -> dict[str, object]:
    """Median over rounds of each step's time divided by the plain step's of the same round."""
    observation = scene(model, n)
    runs = {name: descent(recipe(), observation) for name, recipe in ATTACKS.items()}
    ours = descent(nl_sme(), observation, compiled=True)
    known, module = (
        runs["sme"].known,
        observation.victim.module,
    )  # the net as its owner wrote it, without our convolutions
    steps: dict[str, Step] = {
        "plain": plain_step(known, module),
        "ours": ours.step,
        "eager": straightforward_step(known, module),
    }
    steps |= {name: run.step for name, run in runs.items()}
    times = interleaved(steps, rounds)
    found = {
        name: statistics.median(mine / plain for mine, plain in zip(times[name], times["plain"], strict=True))
        for name in steps
    }
    return {
        "ours": found["ours"],
        "eager": found["eager"],
        "ours_eager": found["nl-sme"],
        "faster_than_eager": statistics.median(
            theirs / mine for theirs, mine in zip(times["eager"], times["ours"], strict=True)
        ),
        "step": ours.evaluate.note,
        "compile_seconds": ours.evaluate.seconds,
        "plain_ms": 1000 * statistics.median(times["plain"]),
        "ratio_to_plain_step": {name: found[name] for name in ATTACKS},
    }


def peak(name: str, model: str, n: int) -> float:
    """Peak memory in MB of ten steps, in this process."""
    observation = scene(model, n)
    attack = ATTACKS[name.removesuffix("-low")]()
    if name.endswith("-low"):
        attack = low_memory(attack, Known.of(observation, torch.device("cpu")))
    run = descent(replace(attack, compile="off"), observation)
    reset_peak_memory("cpu")
    for _ in range(10):
        run.step()
    return peak_memory_mb("cpu")


def peak_apart(name: str, model: str, n: int) -> float:
    """In a process of its own; large blocks go back to the system at once, so that only what is in use counts."""
    command = [sys.executable, __file__, "--peak", name, "--model", model, "--n", str(n)]
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="cnn-cifar")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--peak", choices=PEAKS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.peak:
        print(peak(chosen.peak, chosen.model, chosen.n))
        return
    copy = 4 * sum(size.numel() for size in scene(chosen.model, 10).victim.sizes.values()) / 2**20
    memory = {name: peak_apart(name, chosen.model, chosen.n) for name in PEAKS}
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
        measured = ratios(chosen.model, chosen.n, chosen.rounds)
    result = {
        "command": f"python benchmarks/step.py --model {chosen.model} --n {chosen.n}",
        "model": chosen.model,
        "n": chosen.n,
        "rounds": chosen.rounds,
        **measured,
        "model_copy_mb": copy,
        "peak_mb": memory,
        "extra_copies_of_nl_sme": (memory["nl-sme"] - memory["sme"]) / copy,
        "extra_copies_of_nl_sme_low": (memory["nl-sme-low"] - memory["sme"]) / copy,
    }
    write_json(Path(__file__).parent.parent / "results" / f"step-{chosen.model}.json", result)
    print(json.dumps(result) if chosen.json else "\n".join(f"{name:28} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
