"""Adam that remembers less about the largest variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

BETAS, EPS = (0.9, 0.999), 1e-8
LARGE = ("p1", "d")
"""As large as the model; their gradient is exact and smooth, so that they can go without momentum."""


class Lean(Optimizer):
    """Adam, without first moments in groups whose `momentum` is off: one copy of such a variable instead of two."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {"lr": 1.0, "momentum": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step along the gradients that the closure leaves behind."""
        value = None if closure is None else closure()
        for group in self.param_groups:
            for variable in group["params"]:
                if variable.grad is not None:
                    self._move(variable, group["lr"], momentum=group["momentum"])
        return value

    def _move(self, variable: Tensor, lr: float, *, momentum: bool) -> None:
        gradient, state = variable.grad, self.state[variable]
        assert gradient is not None
        state["step"] = state.get("step", 0) + 1
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        squares = state.setdefault("exp_avg_sq", torch.zeros_like(variable))
        squares.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = squares.sqrt().div_(second**0.5).add_(EPS)
        if momentum:
            mean = state.setdefault("exp_avg", torch.zeros_like(variable)).lerp_(gradient, 1 - BETAS[0])
            variable.addcdiv_(mean, scale, value=-lr / first)
        else:
            variable.addcdiv_(gradient, scale, value=-lr)


def adam_lean(v: Mapping[str, Tensor], rates: Mapping[str, float]) -> Optimizer:
    """Adam with a group for each variable; P1 and d without momentum."""
    return Lean(
        [
            {"params": [v[name]], "lr": rate, "rate": rate, "momentum": name.partition("@")[0] not in LARGE}
            for name, rate in rates.items()
        ]
    )
