"""The privacy budget of a whole DP-SGD run, by Opacus' accountants."""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from leakscope.errors import refusing

LARGEST_PRV = 200.0
"""Above this epsilon the PRV accountant runs out of float64 and memory, and the number says nothing any more."""
ORDERS = [1 + 10 ** (-k / 10) for k in range(1, 90)] + [float(order) for order in range(2, 257)]
"""Rényi orders: close to 1 for weak noise, large for strong noise."""

Releases = tuple[tuple[float, float, int], ...]
"""(sigma, sampling rate, steps), one after the other."""


@dataclass(frozen=True)
class Spent:
    """What a run has cost: (epsilon, delta)-DP, or no guarantee at all where epsilon is None."""

    epsilon: float | None
    accountant: str


def opacus() -> Any:
    """The Opacus package, imported when it is first needed."""
    why = "it takes gradients apart by sample and accounts for the privacy spent"
    with refusing("dpsgd needs Opacus", ImportError, why=why, fix="pip install 'leakscope[dp]'"):
        importlib.import_module("opacus.validators")
        importlib.import_module("opacus.accountants")
        return importlib.import_module("opacus")


@cache
def epsilon_of(releases: Releases, delta: float) -> Spent:
    """epsilon of a history of (sigma, rate, steps): PRV (Gopi et al. 2021), RDP where it is huge."""
    if not releases or any(sigma == 0 for sigma, _, _ in releases):
        return Spent(None, "none")
    history = list(releases)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimal order is the (smallest|largest) alpha")
        rough = opacus().accountants.RDPAccountant()
        rough.history = history
        bound = float(rough.get_epsilon(delta=delta, alphas=ORDERS))
        if not math.isfinite(bound) or bound > LARGEST_PRV:
            return Spent(bound if math.isfinite(bound) else None, "RDP")
        fine = opacus().accountants.PRVAccountant()
        fine.history = history
        error = max(0.01, bound / 1000)
        with np.errstate(divide="ignore"):  # log(1 - rate) of a full batch, which is right as -inf
            return Spent(min(bound, float(fine.get_epsilon(delta=delta, eps_error=error))), "PRV")


def guarantee(releases: Releases, delta: float, *, poisson: bool, steps: str, drawn: str) -> dict[str, object]:
    """The notes of a history: its epsilon, and what that assumes, with `steps` and how samples are drawn in words."""
    spent = epsilon_of(releases, delta)
    sigma, rate, _ = releases[-1] if releases else (0.0, 0.0, 0)
    return {
        "nominal_epsilon": None,
        "accounted_epsilon": spent.epsilon,
        "accountant": spent.accountant,
        "assumption": "no noise, so no guarantee" if spent.epsilon is None else f"{spent.accountant} {steps}{drawn}",
        "sigma": sigma,
        "delta": delta,
        "sampling_rate": rate,
        "steps": sum(count for _, _, count in releases),
        "sampling": "poisson" if poisson else "shuffled batches",
    }
