"""The objective of every attack (eq. 11), one pure function of the variables and of what is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from leakscope.attacks.images import Images
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.matching import Matching
from leakscope.attacks.priors import Prior
from leakscope.attacks.surrogate import Surrogate

Terms = dict[str, Tensor]
Evaluate = Callable[[Variables, Tensor], tuple[dict[str, Tensor], Tensor, Terms]]
"""(variables, progress) -> (gradient per variable, objective, its terms)."""


@dataclass(frozen=True)
class Objective:
    """1 - cos(d * g(w_t; x), delta) + lambda_tv TV(x) + gamma loss(f_w(x), y) + lambda_p R_p + lambda_d R_d."""

    known: Known
    images: Images
    surrogate: Surrogate
    matching: Matching
    priors: tuple[Prior, ...]
    ridges: Mapping[str, float]
    """lambda_p and lambda_d by the name of their variable."""

    def __call__(self, v: Variables, progress: Tensor) -> tuple[Tensor, Terms]:
        """All but the ridges. progress: (), the part of the iterations already done."""
        known = self.known
        x = self.images.decode(v, known)
        y = labels(v, known)
        dummy = self.surrogate.dummy(v, known, lambda w: known.gradient(w, x, y))
        l_sim = self.matching.distance(self.matching.calibrate(v, dummy.update), known)
        total = l_sim
        for prior in self.priors:
            total = total + prior(v, x, dummy, known, progress)
        raw = self.matching.distance(dummy.update.detach(), known)
        return total, {"l_sim": l_sim.detach(), "l_sim_raw": raw}

    def evaluate(self, v: Variables, progress: Tensor) -> tuple[dict[str, Tensor], Tensor, Terms]:
        """Gradients with respect to all variables, the objective, its terms.

        The ridges join after the backward pass, in place: as a part of the graph each would hold a copy of the model.
        """
        leaves = {name: value.detach().requires_grad_() for name, value in v.items()}
        total, terms = self(leaves, progress)
        gradients = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
        value = total.detach()
        for name, weight in self.ridges.items():
            flat = v[name].flatten()
            value = value + weight * torch.dot(flat, flat)
            gradients[name].add_(v[name], alpha=2 * weight)
        return gradients, value, terms


def labels(v: Variables, known: Known) -> Tensor:
    """Class indices (N,) where they are known, else the probabilities (N, classes) that are optimised with x."""
    return known.labels if known.labels is not None else torch.softmax(v["y"], dim=1)
