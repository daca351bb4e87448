"""Whether the owner's own images explain the update: the strongest check, where the truth file is given."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from leakscope.attacks.known import attack_copy
from leakscope.client.training import batch_gradient
from leakscope.labels.evidence import repetitions
from leakscope.types import ClientBatch, Normalisation, Update
from leakscope.victims import Victim

SIMPSON = ((0.0, 1 / 6), (0.5, 4 / 6), (1.0, 1 / 6))
"""States on the straight line from w0 to wT, with their weights in the mean."""


@dataclass(frozen=True)
class Explanation:
    """The update against the mean gradient of the whole private batch along the straight line from w0 to wT."""

    cosine: float
    ratio: float
    """Length of the update against lr T |mean gradient|."""


def explain(update: Update, victim: Victim, batch: ClientBatch) -> Explanation:
    """The mean gradient at three states of the line, in the client's own mode."""
    x, y = batch.normalisation.apply(batch.images), batch.labels
    trained = replace(victim, module=attack_copy(victim.module, update.training))
    total = {name: torch.zeros_like(value, dtype=torch.float32) for name, value in update.w0.items()}
    for t, weight in SIMPSON:
        state = {name: (value - t * update.delta[name]).float() for name, value in update.w0.items()}
        for name, value in batch_gradient(trained, state, victim.buffers(), x, y).items():
            total[name] += weight * value
    inner = sum(float((total[name].double() * value.double()).sum()) for name, value in update.delta.items())
    length = sum(float(value.double().square().sum()) for value in total.values()) ** 0.5
    steps, training = update.training.steps(update.n), update.training
    size = length * training.lr * steps * repetitions(training.momentum, steps)
    return Explanation(inner / max(length * update.norm(), 1e-300), update.norm() / max(size, 1e-300))


def alternatives(update: Update, victim: Victim, batch: ClientBatch) -> dict[str, Explanation]:
    """What the update would look like had the file said something else."""
    plain = Normalisation((0.0,) * victim.shape[0], (1.0,) * victim.shape[0])
    mean, std = batch.images.mean((0, 2, 3)), batch.images.std((0, 2, 3)).clamp_min(1e-3)
    own = Normalisation(tuple(mean.tolist()), tuple(std.tolist()))
    other = replace(update.training, mode="train" if update.training.mode == "eval" else "eval")
    return {
        "mode": explain(replace(update, training=other), victim, batch),
        "plain": explain(update, victim, replace(batch, normalisation=plain)),
        "standardised": explain(update, victim, replace(batch, normalisation=own)),
    }
