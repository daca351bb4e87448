"""What a plausible input looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from leakscope.attacks.known import Dummy, Known, Variables


class Prior(Protocol):
    """A scalar added to the objective."""

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:
        """x: (N, C, H, W) normalised; progress: () in [0, 1], the part of the iterations already done."""


def total_variation(x: Tensor) -> Tensor:
    """Half of mean |d/dx| + mean |d/dy|: the convention of the SME code, in which the paper's 0.01 is given."""
    across = (x[..., :, 1:] - x[..., :, :-1]).abs().mean()
    down = (x[..., 1:, :] - x[..., :-1, :]).abs().mean()
    return (across + down) / 2


@dataclass(frozen=True, kw_only=True)
class TotalVariation:
    """lambda_tv TV(x) of eq. 11."""

    weight: float = 0.01

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        return self.weight * total_variation(x)


@dataclass(frozen=True, kw_only=True)
class ClassLoss:
    """gamma loss(f_w(x), y) of eq. 11: the dummy images should fit their labels."""

    weight: float = 0.0

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        return self.weight * dummy.loss
