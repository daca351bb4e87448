"""Optimisers by name: each takes the variables, their rates and the lengths of the model's tensors.

Gradients come as `.grad`. Every group remembers its own rate as `rate`; the loop multiplies it with the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from leakscope.attacks.lean import Lean

Rates = Mapping[str, float]
Make = Callable[[Mapping[str, Tensor], Rates, list[int]], Optimizer]


def adam(v: Mapping[str, Tensor], rates: Rates, counts: list[int]) -> Optimizer:  # noqa: ARG001
    """Adam with a group for each variable; fused: one pass, no temporary copies."""
    return torch.optim.Adam(_groups(v, rates), fused=True)


def adamw(v: Mapping[str, Tensor], rates: Rates, counts: list[int]) -> Optimizer:  # noqa: ARG001
    """Adam with decoupled weight decay of 0.01."""
    return torch.optim.AdamW(_groups(v, rates), weight_decay=0.01, fused=True)


def adam_lean(v: Mapping[str, Tensor], rates: Rates, counts: list[int]) -> Optimizer:
    """Adam with a single second moment per tensor for variables as large as the model."""
    groups = _groups(v, rates)
    for group, value in zip(groups, v.values(), strict=True):
        group["counts"] = counts if value.shape == (sum(counts),) else None
    return Lean(groups)


def nadam_lean(v: Mapping[str, Tensor], rates: Rates, counts: list[int]) -> Optimizer:
    """The same, and Nesterov's momentum for the smaller variables, the images above all."""
    optimiser = adam_lean(v, rates, counts)
    for group in optimiser.param_groups:
        group["ahead"] = True
    return optimiser


def lbfgs(v: Mapping[str, Tensor], rates: Rates, counts: list[int]) -> Optimizer:  # noqa: ARG001
    """One quasi-Newton step with a line search per iteration; one rate for all variables, that of the first."""
    first = next(iter(rates.values()))
    groups = [{"params": list(v.values()), "rate": first}]
    return torch.optim.LBFGS(
        groups, lr=first, max_iter=1, max_eval=25, tolerance_grad=0, tolerance_change=0, line_search_fn="strong_wolfe"
    )


def _groups(v: Mapping[str, Tensor], rates: Rates) -> list[dict[str, object]]:
    return [{"params": [value], "lr": rates[name], "rate": rates[name]} for name, value in v.items()]


OPTIMISERS: dict[str, Make] = {
    "adam": adam,
    "adamw": adamw,
    "adam-lean": adam_lean,
    "nadam-lean": nadam_lean,
    "lbfgs": lbfgs,
}
LEAN = ("adam-lean", "nadam-lean")
"""Those that keep one second moment per tensor of the model."""
