"""The bias identity: n_c = S_c - (N / T) G_b[c], where only the softmax mass S_c has to be estimated."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.labels.evidence import Evidence

NODES = 11
"""Points on the segment from w0 to wT at which the softmax is taken."""
REACH = 3.0
"""How much further than the mean feature's softmax the images' own may have moved."""
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
    This second step needs a last layer that gives the logits themselves. It starts from the class that looks most
    absent, and corrects no more than the softmax of the mean feature has moved between w0 and wT.
    """
    assert evidence.bias is not None
    pull = evidence.bias * (evidence.n / evidence.steps)
    path = path_softmax(evidence, mean_feature(evidence))
    mass = evidence.n * path.mean(dim=0)
    if not evidence.direct:
        return mass - pull
    least = max(0.01, 1 - REACH * float((path[-1] - path[0]).abs().sum()) / 2)
    kept, absent = (pull / mass).max().clamp(least, 1.0), torch.zeros_like(pull, dtype=torch.bool)
    for _ in range(ROUNDS):
        before, absent = absent, (mass - pull / kept < 0.5) & (pull > 0)
        if not absent.any() or torch.equal(before, absent):
            break
        kept = (pull[absent].sum() / mass[absent].sum()).clamp(least, 1.0)
    return mass - pull / kept


def mean_feature(evidence: Evidence) -> Tensor:
    """The mean input of the last layer (d,): G_W / G_b over the classes that were pushed up, hence are present."""
    weight, bias = evidence.weight, evidence.bias
    assert bias is not None
    present = bias < 0
    total = bias[present].sum()
    return torch.zeros_like(weight[0]) if total == 0 else weight[present].sum(dim=0) / total


def path_softmax(evidence: Evidence, feature: Tensor) -> Tensor:
    """Softmax (NODES, K) of one feature vector at the states of the segment."""
    return torch.cat([evidence.softmax(t, feature[None]) for t in torch.linspace(0, 1, NODES).tolist()])
