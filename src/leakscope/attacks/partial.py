"""Comparisons that see the length of an update: the squared error of DLG, and FedLeak's partial matching.

Both need the scale of one gradient. The update of T steps at rate lr is taken for their sum: r = delta / (lr T).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from leakscope.attacks.known import Known
from leakscope.attacks.matching import Cosine


def mean_gradient(known: Known) -> Tensor:
    """r = delta / (lr T), (p,): the mean gradient of a client that made plain steps."""
    return known.delta / (known.training.lr * known.training.steps(known.n))


@dataclass(frozen=True, kw_only=True)
class SquaredError(Cosine):
    """|g - r|^2 over all coordinates (Zhu, Liu, Han 2019). Reported L_sim is the cosine distance all the same."""

    def loss(self, g: Tensor, known: Known) -> Tensor:
        gap: Tensor = g - mean_gradient(known)
        return gap.square().sum()


@dataclass(frozen=True, kw_only=True)
class PartialTopR(Cosine):
    """sum_l mean|M (r - s)| - cos(M r, M s) over tensors l, with s the dummy gradient (Fan et al. 2025).

    M keeps the share `ratio` of a tensor's entries with the largest magnitude, of the dummy gradient (as the authors'
    code does) or of the observed one. Inside the cosine, the `floor` smallest of what is left of r are dropped too.
    """

    ratio: float = 0.5
    by: Literal["dummy", "target"] = "dummy"
    floor: float = 0.2

    def loss(self, g: Tensor, known: Known) -> Tensor:
        observed = known.split(mean_gradient(known))
        terms = [self._term(observed[name].flatten(), s.flatten()) for name, s in known.split(g).items()]
        return torch.stack(terms).sum()

    def _term(self, r: Tensor, s: Tensor) -> Tensor:
        kept = largest({"dummy": s.detach(), "target": r}[self.by].abs(), self.ratio)
        r, s = kept * r, kept * s
        distance = (r - s).abs().mean()
        inside = largest(r.abs(), 1 - self.floor)
        r, s = inside * r, inside * s
        lengths: Tensor = (r.norm() + 1e-8) * (s.norm() + 1e-8)
        return distance - torch.dot(r, s) / lengths


def largest(magnitude: Tensor, ratio: float) -> Tensor:
    """Mask (n,) of the entries that are not below the (1 - ratio) quantile: at least `ratio` of them."""
    rank = min(len(magnitude), int((1 - ratio) * len(magnitude)) + 1)
    return (magnitude >= magnitude.kthvalue(rank).values).to(magnitude)
