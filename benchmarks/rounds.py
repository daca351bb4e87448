"""What a second recorded round adds: the same client attacked in round 1, in round 2, and in both together.

    python benchmarks/rounds.py [--writers 2 7] [--n 20] [--iterations 150]

Needs FEMNIST under LEAKSCOPE_DATA; the default writers are development clients. Between the rounds the server averages
the client's update with those of four others. Writes results/rounds.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from leakscope import data
from leakscope.attacks import build_attack
from leakscope.client.training import Client, train
from leakscope.files import versions, write_json
from leakscope.metrics.score import score
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge, LocalTraining
from leakscope.victims import build_victim

ROOT = Path(__file__).parent.parent
OTHERS = 4


def rounds_of(dataset: data.Dataset, writer: str, n: int, training: LocalTraining) -> tuple[Client, list[Observation]]:
    """A client and what the server sees of it in two rounds."""
    victim = build_victim("cnn-mnist", shape=dataset.shape, classes=dataset.classes, seed=int(writer))
    client = Client(victim, data.draw_client(dataset, n=n, seed=0, writer=writer), training, int(writer))
    others = [data.draw_client(dataset, n=n, seed=1000 + k, writer="pooled") for k in range(OTHERS)]
    w, seen = victim.weights(), []
    for turn in range(2):
        updates = [train(replace(client, seed=10 * turn + client.seed), w)]
        updates += [train(Client(victim, batch, training, turn), w) for batch in others]
        seen.append(
            observe(
                updates[0],
                victim,
                knowledge=Knowledge(),
                normalisation=client.batch.normalisation,
                labels=client.batch.labels,
            )
        )
        w = {name: value - torch.stack([u.delta[name] for u in updates]).mean(0) for name, value in w.items()}
    return client, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", nargs="+", default=["2", "7"])
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--attack", default="nl-sme")
    given = parser.parse_args()
    dataset, rows = data.load("femnist"), []
    training = LocalTraining(epochs=5, batch_size=5, lr=0.01)
    attack = replace(build_attack(given.attack, {}), iterations=given.iterations, history=given.iterations)
    for writer in given.writers:
        client, (first, second) = rounds_of(dataset, writer, given.n, training)
        candidates = data.held_out(dataset, avoid=client.batch, count=1000, seed=0)
        for name, seen in (("round 1", first), ("round 2", second), ("both", replace(first, more=(second,)))):
            found = attack(seen)
            metrics = score(client.batch.images, found, candidates=candidates, download=False).metrics
            kept = {key: metrics[key] for key in ("psnr", "ssim", "identified")}
            rows.append({"writer": writer, "seen": name, **kept, "seconds": round(found.seconds, 1)})
            print(rows[-1], flush=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    facts = {"command": "python benchmarks/rounds.py", "commit": commit.stdout.strip(), "versions": versions()}
    settings = {"attack": given.attack, "iterations": given.iterations, "n": given.n, "training": repr(training)}
    write_json(ROOT / "results" / "rounds.json", {**facts, **settings, "rows": rows})


if __name__ == "__main__":
    main()
