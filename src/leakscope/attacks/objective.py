"""The objective of every attack (eq. 11) and its gradient: one pure function of the variables and of what is known.

    L = 1 - cos(d * g(w_t; x), delta) + priors(x, features, loss) + lambda_p |P1 - mid|^2 + lambda_d |d - 1|^2

The matching term sees x and w_t only through the dummy update g. So one pass forward gives g and the slope dL/dg, and
one pass back from there gives dL/dx and dL/dw_t. P1 and d are as large as the model: their gradients follow by the
chain rule, in place, when all that the two passes held has been freed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.attacks.calculus import Autograd, Calculus, Tensors
from leakscope.attacks.images import Images
from leakscope.attacks.known import Dummy, Known, Variables
from leakscope.attacks.matching import Matching
from leakscope.attacks.passes import Passes
from leakscope.attacks.priors import Prior
from leakscope.attacks.surrogate import Surrogate

Terms = dict[str, Tensor]
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class Objective:
    """The parts of an attack, laid out for evaluation."""

    known: Known
    images: Images
    surrogate: Surrogate
    matching: Matching
    priors: tuple[Prior, ...]
    ridges: Mapping[str, float]
    """lambda_p and lambda_d by the name of their variable."""
    chunk: int | None = None
    """How many dummy images go through the net at a time; None: all. It changes nothing but rounding."""
    calculus: Calculus = field(default_factory=Autograd)

    def evaluate(self, v: Variables, progress: Tensor) -> tuple[Gradients, Tensor, Terms]:
        """Gradients with respect to all variables, the objective, its terms.

        progress: (), the part of the iterations already done.
        """
        known = self.known
        free = [name for name in v if name not in (*self.surrogate.moves, *self.matching.moves)]
        inputs, pull_inputs = self.calculus.linearise(
            lambda *values: self._inputs(dict(zip(free, values, strict=True))), tuple(v[name] for name in free)
        )
        passes = Passes(known, self.calculus, self.chunk)
        seen, pull_net = self.surrogate.linearise(v, known, inputs, passes)
        update = seen[: len(known.sizes)]
        loss, slope, terms = self._compare(v, known.join(update))
        prior, (x_slope, *extra_slopes) = self._weigh(v, (inputs[0], *seen[len(known.sizes) :]), progress)

        found = pull_net((*known.split(slope).values(), *extra_slopes))
        x_slope = x_slope + found[0]
        gradients = dict(zip(free, pull_inputs((x_slope, *found[1 : len(inputs)])), strict=True))
        if self.matching.moves:
            gradients |= self.matching.pull(v, known.join(update), slope)
        if self.surrogate.moves:
            gradients |= self.surrogate.pull(v, known, known.join(found[len(inputs) :]))
        return gradients, self._add_ridges(v, gradients, loss + prior), terms

    def _inputs(self, v: Variables) -> Tensors:
        """The dummy images, and the probabilities of their labels where they are learned with them."""
        x = self.images.decode(v, self.known)
        return (x,) if self.known.labels is not None else (x, torch.softmax(v["y"], dim=1))

    def _compare(self, v: Variables, g: Tensor) -> tuple[Tensor, Tensor, Terms]:
        """The matching loss, its gradient with respect to the dummy update g (p,), and L_sim with and without d."""
        matching, known = self.matching, self.known
        raw = matching.distance(g, known)
        g = matching.calibrate(v, g)
        l_sim = matching.distance(g, known) if matching.moves else raw
        (loss,), pull = self.calculus.linearise(lambda g: (matching.loss(g, known),), (g,))
        (slope,) = pull((torch.ones_like(loss),))
        return loss, matching.calibrate(v, slope), {"l_sim": l_sim, "l_sim_raw": raw}

    def _weigh(self, v: Variables, seen: Tensors, progress: Tensor) -> tuple[Tensor, Tensors]:
        """The priors and their gradients. seen: x, the loss, and features where there are any."""

        def total(x: Tensor, loss: Tensor, features: Tensor | None = None) -> Tensors:
            dummy = Dummy((), loss, features)
            return (sum((prior(v, x, dummy, self.known, progress) for prior in self.priors), torch.zeros_like(loss)),)

        (value,), pull = self.calculus.linearise(total, seen)
        return value, pull((torch.ones_like(value),))

    def _add_ridges(self, v: Variables, gradients: Gradients, value: Tensor) -> Tensor:
        for name, weight in self.ridges.items():
            flat = v[name].flatten()
            value = value + weight * torch.dot(flat, flat)
            gradients[name].add_(v[name], alpha=2 * weight)
        return value
