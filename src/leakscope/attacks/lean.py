"""Adam that remembers less about the largest variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

BETAS, EPS = (0.9, 0.999), 1e-8


class Lean(Optimizer):
    """Adam, with one second moment for all entries of a tensor in groups that say how long its tensors are (`counts`).

    Such a variable takes one copy of itself instead of two (Adam-mini, Zhang et al. 2024, with tensors as blocks).
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {"lr": 1.0, "counts": None})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step along the gradients that the closure leaves behind."""
        value = None if closure is None else closure()
        for group in self.param_groups:
            for variable in group["params"]:
                if variable.grad is not None:
                    self._move(variable, group["lr"], group["counts"])
        return value

    def _move(self, variable: Tensor, lr: float, counts: list[int] | None) -> None:
        gradient, state = variable.grad, self.state[variable]
        assert gradient is not None
        state["step"] = state.get("step", 0) + 1
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        mean = state.setdefault("exp_avg", torch.zeros_like(variable)).lerp_(gradient, 1 - BETAS[0])
        squares = _squares(gradient, counts)
        average = state.setdefault("exp_avg_sq", torch.zeros_like(squares)).lerp_(squares, 1 - BETAS[1])
        scale = average.sqrt().div_(second**0.5).add_(EPS)
        for piece, direction, size in _blocks(variable, mean, scale, counts):
            piece.addcdiv_(direction, size, value=-lr / first)


def _squares(gradient: Tensor, counts: list[int] | None) -> Tensor:
    if counts is None:
        return gradient.square()
    return torch.stack([torch.dot(piece, piece) / len(piece) for piece in torch.split(gradient, counts)])


def _blocks(variable: Tensor, mean: Tensor, scale: Tensor, counts: list[int] | None) -> list[tuple[Tensor, ...]]:
    if counts is None:
        return [(variable, mean, scale)]
    return list(zip(torch.split(variable, counts), torch.split(mean, counts), scale, strict=True))
