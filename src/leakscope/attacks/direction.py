"""From the gradient of the objective to what the optimiser is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from leakscope.attacks.known import Variables

Gradients = dict[str, Tensor]
Evaluated = tuple[Gradients, Tensor, dict[str, Tensor]]
"""(gradient per variable, objective, its terms)"""
Evaluate = Callable[[Variables], Evaluated]
Advance = Callable[[Gradients], None]
"""Lets the optimiser make a step along the given gradients, without projections."""


class Direction(Protocol):
    """Looks at the objective, at v and maybe elsewhere, and leaves v as it was."""

    def __call__(self, v: Variables, progress: float, evaluate: Evaluate, advance: Advance) -> Evaluated:
        """What the optimiser gets, with objective and terms at v. progress: part of the iterations already done."""


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """The gradient itself."""

    def __call__(self, v: Variables, progress: float, evaluate: Evaluate, advance: Advance) -> Evaluated:  # noqa: ARG002
        return evaluate(v)


@dataclass(frozen=True, kw_only=True)
class Signed:
    """Its sign (Geiping et al. 2020), or softly tanh(s g) / s with s falling from 1 to 0 (their later framework)."""

    soft: bool = False

    def __call__(self, v: Variables, progress: float, evaluate: Evaluate, advance: Advance) -> Evaluated:  # noqa: ARG002
        gradients, value, terms = evaluate(v)
        return {name: self._sign(gradient, 1 - progress) for name, gradient in gradients.items()}, value, terms

    def _sign(self, gradient: Tensor, s: float) -> Tensor:
        return torch.tanh(s * gradient) / s if self.soft else gradient.sign()


@dataclass(frozen=True, kw_only=True)
class GradientRegularisation:
    """(1 - blend) a + blend b, with a the gradient here and b the gradient at a probe near by (Fan et al. 2025).

    A finite-difference form of a penalty on the gradient's norm, which needs no third derivative. The probe lies where
    the optimiser would go (`optimizer`, the authors' code, whose moments so advance twice an iteration), or `radius`
    up the gradient (`ascent`, what the penalty's derivation asks for).
    """

    blend: float = 0.3
    probe: Literal["optimizer", "ascent"] = "optimizer"
    radius: float = 1e-3
    signed: bool = True

    def __call__(self, v: Variables, progress: float, evaluate: Evaluate, advance: Advance) -> Evaluated:  # noqa: ARG002
        gradients, value, terms = evaluate(v)
        here = self._sign(gradients)
        there = self._sign(PROBES[self.probe](self, v, gradients, here, evaluate, advance))
        return {name: torch.lerp(here[name], there[name], self.blend) for name in here}, value, terms

    def _sign(self, gradients: Gradients) -> Gradients:
        return {name: gradient.sign() if self.signed else gradient.clone() for name, gradient in gradients.items()}


def after_a_step(
    rule: GradientRegularisation,  # noqa: ARG001
    v: Variables,
    gradients: Gradients,  # noqa: ARG001
    here: Gradients,
    evaluate: Evaluate,
    advance: Advance,
) -> Gradients:
    """The gradient after a step of the optimiser, which is taken back."""
    before = {name: value.clone() for name, value in v.items()}
    advance(here)
    found = evaluate(v)[0]
    for name, value in v.items():
        value.copy_(before[name])
    return found


def up_the_slope(
    rule: GradientRegularisation,
    v: Variables,
    gradients: Gradients,
    here: Gradients,  # noqa: ARG001
    evaluate: Evaluate,
    advance: Advance,  # noqa: ARG001
) -> Gradients:
    """The gradient at v + radius * a / |a|, with the norm over all variables."""
    length = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    scale = rule.radius / length.clamp_min(torch.finfo(length.dtype).tiny)
    return evaluate({name: torch.addcmul(value, gradients[name], scale) for name, value in v.items()})[0]


PROBES = {"optimizer": after_a_step, "ascent": up_the_slope}
