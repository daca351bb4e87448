"""A set of dummy images for every local epoch (Dimitrov et al. 2022): the order within an epoch is unknown anyway."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Dummy, Known, Variable, Variables


@dataclass(frozen=True, kw_only=True)
class EpochCopies(Pixels):
    """x (E N, C, H, W): E independent sets, the e-th of which only epoch e trains on."""

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        sets = [super(EpochCopies, self).variables(known, generator)["x"] for _ in range(known.training.epochs)]
        return {"x": Variable(torch.cat([one.start for one in sets]), self.lr, project=sets[0].project)}


def merge(x: Tensor, n: int) -> Tensor:
    """(E N, C, H, W) -> (N, C, H, W): every set in the order of the first by squared distance, then their mean."""
    sets = x.view(-1, n, *x.shape[1:])
    first = sets[0].flatten(1)
    aligned = [sets[0]]
    for other in sets[1:]:
        gaps = torch.cdist(first, other.flatten(1)).square()
        aligned.append(other[linear_sum_assignment(gaps.cpu().numpy())[1]])
    return torch.stack(aligned).mean(0)


@dataclass(frozen=True, kw_only=True)
class OrderInvariance:
    """weight * mean squared difference between the epochs' sets in a statistic that no order moves, over all pairs."""

    weight: float
    statistic: Literal["mean", "max"] = "mean"

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        sets = x.view(-1, known.n, *x.shape[1:])
        if len(sets) < 2:
            return x.new_zeros(())
        seen = {"mean": sets.mean(1), "max": sets.amax(1)}[self.statistic].flatten(1)
        pairs = torch.tensor(list(permutations(range(len(sets)), 2)), device=x.device)
        gap: Tensor = (seen[pairs[:, 0]] - seen[pairs[:, 1]]).square().mean()
        return self.weight * gap
