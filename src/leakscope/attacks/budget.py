"""A time budget instead of a number of iterations."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.descent import Descent
from leakscope.attacks.known import Known
from leakscope.errors import refusal

TRIAL, LEAST = 5, 20
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Times a few steps and plans as many iterations as fit. Such a run cannot be repeated bit for bit."""

    seconds: float

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        trial = Descent(attack, known, None, seed=0, state=None)
        trial.step()
        began = time.perf_counter()
        for _ in range(TRIAL):
            trial.step()
        step = (time.perf_counter() - began) / TRIAL
        fit = int(self.seconds / (step * attack.restarts))
        if attack.preparation is not None:
            fit = int(fit * fit / max(1.0, fit + attack.preparation.steps(fit)))
        iterations = max(LEAST, min(attack.iterations, fit))
        plan = {"budget_seconds": self.seconds, "step_seconds": step, "iterations": iterations, "repeatable": False}
        return replace(attack, iterations=iterations, compile="off"), known, {"plan": plan}


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `2m` or `1.5h`.

    >>> parse_duration("2m")
    120.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise refusal(f"--budget {text!r} is not a duration", fix="--budget 90s, --budget 2m or --budget 1h")
    return float(found[1]) * UNITS[found[2] or "s"]
