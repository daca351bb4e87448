"""The firewall: only what the attacker may know crosses it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.errors import refusal, refuse
from leakscope.types import Knowledge, LocalTraining, Normalisation, Update, Weights
from leakscope.victims import Victim, differences

GUESSED_MEAN, GUESSED_STD = 0.5, 0.25


@dataclass(frozen=True)
class Observation:
    """Everything an attack receives. It shares no memory with the client."""

    victim: Victim
    w0: Weights
    delta: Weights
    """The visible update w0 - wT, after defense and fusion."""
    buffers: Weights
    n: int
    training: LocalTraining
    normalisation: Normalisation
    labels: Tensor | None
    """(N,) int64, where the labels or their counts are granted or recovered; their order tells nothing."""
    knowledge: Knowledge
    declared_defense: str = "none"
    """What the client says it applied; an adaptive attacker may use it."""
    buffers_after: Weights = field(default_factory=dict)
    """Batch-norm statistics and counters after training, which clients send along; empty where they do not."""
    more: tuple[Observation, ...] = ()
    """Further rounds of the same client: the same images, seen from other weights."""

    def __repr__(self) -> str:
        return f"Observation({self.victim}, n={self.n}, {self.training}, {self.knowledge})"


def observe(
    update: Update,
    victim: Victim,
    *,
    knowledge: Knowledge,
    normalisation: Normalisation,
    labels: Tensor | None,
    declared_defense: str = "none",
) -> Observation:
    """Let an update through to the attacker, with no more than `knowledge` grants.

    Labels are sorted on the way: the multiset is what the paper's attacker knows, the order of the images is not.
    """
    return Observation(
        victim=victim,
        w0=_copy(update.w0),
        delta=_copy(update.delta),
        buffers=_copy(update.buffers),
        buffers_after=_copy(update.buffers_after),
        n=update.n,
        training=update.training,
        normalisation=normalisation if knowledge.normalisation else guess(victim.shape[0]),
        labels=None if labels is None or knowledge.labels in ("recovered", "none") else in_order(labels),
        knowledge=knowledge,
        declared_defense=declared_defense,
    )


def guess(channels: int) -> Normalisation:
    """What an attacker assumes who was not told the normalisation."""
    return Normalisation((GUESSED_MEAN,) * channels, (GUESSED_STD,) * channels)


def in_order(labels: Tensor) -> Tensor:
    """A copy that tells the multiset alone: classes ascending, soft targets (N, classes) as whole rows, descending."""
    if labels.dim() == 2:
        order = sorted(range(len(labels)), key=lambda i: labels[i].tolist(), reverse=True)
        return labels.detach()[order].clone()
    return torch.sort(labels.detach().clone()).values


def _copy(weights: Weights) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}


def check_update(update: Update, victim: Victim) -> None:
    """Refuse an update that this model cannot have sent, with every reason at once."""
    refuse([*differences(update.w0, victim, what="w0"), *differences(update.delta, victim, what="update")])
    if update.norm() == 0:
        why = "nothing was trained, or w0 was stored twice"
        raise refusal("the update is all zero", why=why, fix="record w0 before training")
