"""Where the dummy update is computed: at w0 for IG, on the line to wT for SME, on a free path for NL-SME.

Weights are vectors in R^p; delta = w0 - wT is the observed update (eq. 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from leakscope.attacks.calculus import Pull, Tensors
from leakscope.attacks.known import Known, Variable, Variables
from leakscope.attacks.passes import Passes

PATH = frozenset({"trajectory", "lr_p", "lambda_p"})
"""Options that say how free the path is; who gives one wants no straight line instead."""


class Surrogate(Protocol):
    """A stand-in for the hidden trajectory of the client.

    The loop differentiates with respect to the state alone, a vector in R^p; `pull` is the chain rule from there to
    the surrogate's own variables, which are as large as the model and must not be copied.
    """

    @property
    def moves(self) -> tuple[str, ...]:
        """The names of its variables."""

    def variables(self, known: Known) -> dict[str, Variable]:
        """What it lets the optimiser move."""

    def state(self, v: Variables, known: Known) -> Tensor:
        """(p,): the weights from which the dummy update is computed."""

    def linearise(self, v: Variables, known: Known, inputs: Tensors, passes: Passes) -> tuple[Tensors, Pull]:
        """(*update, loss, features where there are any) that the dummy images would have caused, and the way back.

        inputs: x (N, C, H, W), and the probabilities y (N, classes) where labels are learned. The way back gives
        gradients with respect to the inputs and, where the surrogate moves, to the state, tensor by tensor.
        """

    def pull(self, v: Variables, known: Known, slope: Tensor) -> dict[str, Tensor]:
        """Gradients of its variables for slope = dL/dstate (p,), which may be overwritten."""


def _unit_interval(t: Tensor) -> Tensor:
    return t.clamp_(0, 1)


@dataclass(frozen=True, kw_only=True)
class Start:
    """IG: the gradient at w0, as if the client had made one step (eq. 1)."""

    moves: ClassVar[tuple[str, ...]] = ()

    def variables(self, known: Known) -> dict[str, Variable]:  # noqa: ARG002
        return {}

    def state(self, v: Variables, known: Known) -> Tensor:  # noqa: ARG002
        """w0, (p,)."""
        return known.w0

    def linearise(self, v: Variables, known: Known, inputs: Tensors, passes: Passes) -> tuple[Tensors, Pull]:
        return passes.linearise(inputs, known.split(self.state(v, known)), learned=bool(self.moves))

    def pull(self, v: Variables, known: Known, slope: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, kw_only=True)
class Linear(Start):
    """SME: one state on the straight line, w_lin(t) = (1-t) w0 + t wT (eq. 3), t in [0, 1] learned."""

    moves: ClassVar[tuple[str, ...]] = ("t",)
    t: float = 0.5
    lr_t: float = 1e-3

    def variables(self, known: Known) -> dict[str, Variable]:
        return {"t": Variable(known.w0.new_tensor(self.t), self.lr_t, project=_unit_interval)}

    def state(self, v: Variables, known: Known) -> Tensor:
        """w_lin(t), (p,)."""
        return torch.addcmul(known.w0, known.delta, -v["t"])

    def pull(self, v: Variables, known: Known, slope: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """dL/dt = -<slope, delta>."""
        return {"t": -torch.dot(slope, known.delta)}


@dataclass(frozen=True, kw_only=True)
class Bezier(Linear):
    """NL-SME: w_t = (1-t)^2 w0 + 2t(1-t) P1 + t^2 wT (eq. 6), with P1 free but held near the midpoint (eq. 7).

    Kept in the equal offset form w_lin(t) + 2t(1-t) (P1 - mid): `p1` is P1 - (w0 + wT)/2, so that P1 = mid is SME
    bit for bit, and R_p is the squared norm of the variable itself.
    """

    moves: ClassVar[tuple[str, ...]] = ("t", "p1")
    lambda_p: float = 1e-3
    lr_p: float = 1e-3

    def variables(self, known: Known) -> dict[str, Variable]:
        p1 = Variable(known.w0.new_zeros(()).expand_as(known.w0), self.lr_p, ridge=self.lambda_p)
        return {**super().variables(known), "p1": p1}

    def state(self, v: Variables, known: Known) -> Tensor:
        """w_t of eq. 6, (p,)."""
        t = v["t"]
        return torch.addcmul(super().state(v, known), v["p1"], 2 * t * (1 - t))

    def pull(self, v: Variables, known: Known, slope: Tensor) -> dict[str, Tensor]:
        """dL/dt = <slope, 2(1-2t) (P1 - mid) - delta> and dL/dP1 = 2t(1-t) slope, the latter in place."""
        t = v["t"]
        along = super().pull(v, known, slope)["t"] + (2 - 4 * t) * torch.dot(slope, v["p1"])
        return {"t": along, "p1": slope.mul_(2 * t * (1 - t))}
