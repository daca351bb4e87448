"""The firewall: only what the attacker may know crosses it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakscope.types import Knowledge, LocalTraining, Normalisation, Update, Weights
from leakscope.victims import Victim

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
        n=update.n,
        training=update.training,
        normalisation=normalisation if knowledge.normalisation else guess(victim.shape[0]),
        labels=_granted(labels, knowledge),
        knowledge=knowledge,
        declared_defense=declared_defense,
    )


def guess(channels: int) -> Normalisation:
    """What an attacker assumes who was not told the normalisation."""
    return Normalisation((GUESSED_MEAN,) * channels, (GUESSED_STD,) * channels)


def _granted(labels: Tensor | None, knowledge: Knowledge) -> Tensor | None:
    if labels is None or knowledge.labels in ("recovered", "none"):
        return None
    if labels.dim() == 2:
        return labels.detach().clone()
    return torch.sort(labels.detach().clone()).values


def _copy(weights: Weights) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}
