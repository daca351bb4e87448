"""What pruning took from the last layer's update, put back from what it left."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 20
"""Alternations between rows and columns; the fit settles within ten."""
RIDGE = 1e-3
"""Share of the best supported row's (column's) weight that is added to each, against division by noise."""


def restored(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Fill exact zeros of G_W (K, d) and G_b (K,) from the rank-one fit G_W = G_b h^T of the entries that are left.

    A step's gradients are (p - y) h^T and p - y, and the features h of different images are much alike, so a row of
    G_W is about G_b[c] times the mean feature. Where a row or a column has nothing left, its zeros stay.
    """
    kept, seen = weight != 0, bias != 0
    if kept.all() and seen.all():
        return weight, bias
    g, h = bias.clone(), torch.zeros_like(weight[0])
    for _ in range(ROUNDS):
        h = _ratio((g[:, None] * weight).sum(dim=0), (g.square()[:, None] * kept).sum(dim=0))
        g = torch.where(seen, bias, _ratio((weight * h).sum(dim=1), (kept * h.square()).sum(dim=1)))
    return torch.where(kept, weight, g[:, None] * h), g


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, drawn to zero where there is next to nothing to divide by."""
    ridge = RIDGE * below.max().clamp(min=torch.finfo(below.dtype).tiny)
    return above / (below + ridge)
