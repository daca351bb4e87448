"""Where the dummy update is computed. IG, SME and NL-SME differ in this file alone.

Weights are vectors in R^p; delta = w0 - wT is the observed update (eq. 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from leakscope.attacks.known import Dummy, Known, Variable, Variables

GradientAt = Callable[[Tensor], Dummy]


class Surrogate(Protocol):
    """A stand-in for the hidden trajectory of the client."""

    def variables(self, known: Known) -> dict[str, Variable]:
        """What it lets the optimiser move."""

    def dummy(self, v: Variables, known: Known, gradient_at: GradientAt) -> Dummy:
        """The update that the dummy images would have caused."""


def _unit_interval(t: Tensor) -> Tensor:
    return t.clamp_(0, 1)


@dataclass(frozen=True, kw_only=True)
class Start:
    """IG: the gradient at w0, as if the client had made one step (eq. 1)."""

    def variables(self, known: Known) -> dict[str, Variable]:  # noqa: ARG002
        return {}

    def dummy(self, v: Variables, known: Known, gradient_at: GradientAt) -> Dummy:  # noqa: ARG002
        return gradient_at(known.w0)


@dataclass(frozen=True, kw_only=True)
class Linear:
    """SME: one state on the straight line, w_lin(t) = (1-t) w0 + t wT (eq. 3), t in [0, 1] learned."""

    t: float = 0.5
    lr_t: float = 1e-3

    def variables(self, known: Known) -> dict[str, Variable]:
        return {"t": Variable(known.w0.new_tensor(self.t), self.lr_t, project=_unit_interval)}

    def state(self, v: Variables, known: Known) -> Tensor:
        """w_lin(t), (p,)."""
        return torch.addcmul(known.w0, known.delta, -v["t"])

    def dummy(self, v: Variables, known: Known, gradient_at: GradientAt) -> Dummy:
        return gradient_at(self.state(v, known))


@dataclass(frozen=True, kw_only=True)
class Bezier(Linear):
    """NL-SME: w_t = (1-t)^2 w0 + 2t(1-t) P1 + t^2 wT (eq. 6), with P1 free but held near the midpoint (eq. 7).

    Kept in the equal offset form w_lin(t) + 2t(1-t) (P1 - mid): `p1` is P1 - (w0 + wT)/2, so that P1 = mid is SME
    bit for bit, and R_p is the squared norm of the variable itself.
    """

    lambda_p: float = 1e-3
    lr_p: float = 1e-3

    def variables(self, known: Known) -> dict[str, Variable]:
        return {**super().variables(known), "p1": Variable(torch.zeros_like(known.w0), self.lr_p, ridge=self.lambda_p)}

    def state(self, v: Variables, known: Known) -> Tensor:
        """w_t of eq. 6, (p,)."""
        t = v["t"]
        return torch.addcmul(super().state(v, known), v["p1"], 2 * t * (1 - t))
