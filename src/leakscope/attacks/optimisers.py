"""Optimisers by name: each takes the variables and their rates, and reads gradients from `.grad`.

Every group remembers its own rate as `rate`; the loop multiplies it with the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from leakscope.attacks.lean import adam_lean

Make = Callable[[Mapping[str, Tensor], Mapping[str, float]], Optimizer]


def adam(v: Mapping[str, Tensor], rates: Mapping[str, float]) -> Optimizer:
    """Adam with a group for each variable; fused: one pass, no temporary copies."""
    return torch.optim.Adam(_groups(v, rates), fused=True)


def adamw(v: Mapping[str, Tensor], rates: Mapping[str, float]) -> Optimizer:
    """Adam with decoupled weight decay of 0.01."""
    return torch.optim.AdamW(_groups(v, rates), weight_decay=0.01, fused=True)


def lbfgs(v: Mapping[str, Tensor], rates: Mapping[str, float]) -> Optimizer:
    """One quasi-Newton step with a line search per iteration; one rate for all variables, that of the first."""
    first = next(iter(rates.values()))
    groups = [{"params": list(v.values()), "rate": first}]
    return torch.optim.LBFGS(
        groups, lr=first, max_iter=1, max_eval=25, tolerance_grad=0, tolerance_change=0, line_search_fn="strong_wolfe"
    )


def _groups(v: Mapping[str, Tensor], rates: Mapping[str, float]) -> list[dict[str, object]]:
    return [{"params": [value], "lr": rates[name], "rate": rates[name]} for name, value in v.items()]


OPTIMISERS: dict[str, Make] = {"adam": adam, "adamw": adamw, "adam-lean": adam_lean, "lbfgs": lbfgs}
