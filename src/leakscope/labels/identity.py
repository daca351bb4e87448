"""The bias identity: n_c = S_c - (N / T) G_b[c], where only the softmax mass S_c has to be estimated."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.labels.evidence import Evidence

NODES = 11
"""Points on the segment from w0 to wT at which the softmax is taken."""
ROUNDS = 10
"""How often the set of absent classes may change before it is taken as it is; two rounds usually settle it."""


def bias_identity(evidence: Evidence) -> Tensor:
    """Counts (K,), not yet rounded, from the gradient sum of the last bias.

    A step's bias gradient is the batch mean of p - y, and an epoch sees every image once, so n_c = S_c - (N / T) G_b[c]
    holds exactly for batches of one size (in the mean over orders where the last one is short); S_c is the softmax
    mass of class c, summed over the images and averaged over the epochs. Its first estimate is N q_c, where q is the
    softmax of the mean feature along the segment w0 .. wT.

    A class that is absent (n_c = 0) shows its mass exactly: S_c = (N / T) G_b[c]. Training moves mass from where it
    was towards the labels, S = (1 - a) N q + a n; the absent classes give 1 - a, and n = N q - (N / T) G_b / (1 - a).
    This second step needs a last layer that gives the logits themselves.
    """
    pull = evidence.need_bias("bias-identity") * (evidence.n / evidence.steps)
    mass = evidence.n * path_softmax(evidence, mean_feature(evidence))
    counts, absent = mass - pull, torch.zeros_like(pull, dtype=torch.bool)
    for _ in range(ROUNDS):
        before, absent = absent, (counts < 0.5) & (pull > 0)
        if not evidence.direct or not absent.any() or torch.equal(before, absent):
            break
        kept = (pull[absent].sum() / mass[absent].sum()).clamp(0.01, 1.0)
        counts = mass - pull / kept
    return counts


def mean_feature(evidence: Evidence) -> Tensor:
    """The mean input of the last layer (d,): G_W / G_b over the classes that were pushed up, hence are present."""
    bias = evidence.need_bias("the mean feature")
    present = bias < 0
    total = bias[present].sum()
    if total == 0:
        return torch.zeros(evidence.weight.shape[1], dtype=evidence.weight.dtype)
    return evidence.weight[present].sum(dim=0) / total


def path_softmax(evidence: Evidence, feature: Tensor) -> Tensor:
    """Mean softmax (K,) of one feature vector over the states of the segment."""
    nodes = torch.linspace(0, 1, NODES).tolist()
    return torch.stack([evidence.softmax(t, feature[None])[0] for t in nodes]).mean(dim=0)
