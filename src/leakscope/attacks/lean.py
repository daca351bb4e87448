"""Adam that remembers less about the largest variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.adam import adam

BETAS, EPS = (0.9, 0.999), 1e-8


class Lean(Optimizer):
    """Adam, with one second moment for all entries of a tensor in groups that say how long its tensors are (`counts`).

    Such a variable takes one copy of itself instead of two (Adam-mini, Zhang et al. 2024, with tensors as blocks), and
    entries without a gradient to speak of stay where they are, while Adam would move them as fast as the others. All
    other variables move as with torch's own Adam, bit for bit, or in groups that look `ahead` with Nesterov's momentum.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {"lr": 1.0, "counts": None, "ahead": False, "fused": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step along the gradients that the closure leaves behind."""
        value = None if closure is None else closure()
        for group in self.param_groups:
            for variable in group["params"]:
                if variable.grad is None:
                    continue
                if group["counts"] is not None:
                    self._move_in_blocks(variable, group["lr"], group["counts"])
                elif group["ahead"]:
                    self._move_ahead(variable, group["lr"])
                else:
                    self._move(variable, group["lr"])
        return value

    def _move(self, variable: Tensor, lr: float) -> None:
        gradient, state = variable.grad, self.state[variable]
        assert gradient is not None
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=variable.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(variable), torch.zeros_like(variable)
        adam(
            [variable],
            [gradient],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=lr,
            weight_decay=0,
            eps=EPS,
            maximize=False,
        )

    def _move_ahead(self, variable: Tensor, lr: float) -> None:
        """Along the momentum as this gradient, seen once more, would make it (NAdam, Dozat 2016, at constant betas)."""
        gradient, state = variable.grad, self.state[variable]
        assert gradient is not None
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(variable), torch.zeros_like(variable)
        state["step"] += 1
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        mean = state["exp_avg"].lerp_(gradient, 1 - BETAS[0])
        average = state["exp_avg_sq"].lerp_(gradient.square(), 1 - BETAS[1])
        scale = average.sqrt().div_(second**0.5).add_(EPS)
        variable.addcdiv_(mean.lerp(gradient, 1 - BETAS[0]), scale, value=-lr / first)

    def _move_in_blocks(self, variable: Tensor, lr: float, counts: list[int]) -> None:
        gradient, state = variable.grad, self.state[variable]
        assert gradient is not None
        if not state:
            state["step"], state["exp_avg"] = 0, torch.zeros_like(variable)
            state["exp_avg_sq"] = torch.zeros(len(counts), dtype=variable.dtype, device=variable.device)
        state["step"] += 1
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        mean = state["exp_avg"].lerp_(gradient, 1 - BETAS[0])
        squares = torch.stack([torch.dot(piece, piece) / len(piece) for piece in torch.split(gradient, counts)])
        average = state["exp_avg_sq"].lerp_(squares, 1 - BETAS[1])
        scale = average.sqrt().div_(second**0.5).add_(EPS)
        blocks = zip(torch.split(variable, counts), torch.split(mean, counts), scale, strict=True)
        for piece, direction, size in blocks:
            piece.addcdiv_(direction, size, value=-lr / first)
