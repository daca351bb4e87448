"""Learning-rate factors over the progress of an attack, 0 <= progress < 1."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[float], float]


def paper(progress: float) -> float:
    """A tenth at 3/8, 5/8 and 7/8 of the iterations, on every variable (SME's code, followed by the paper)."""
    return 0.1 ** sum(progress >= mark for mark in (3 / 8, 5 / 8, 7 / 8))


def constant(progress: float) -> float:  # noqa: ARG001
    """No decay (SME's setting for the ViT)."""
    return 1.0


def cosine(progress: float) -> float:
    """Half a cosine down to a thousandth."""
    return max(1e-3, (1 + math.cos(math.pi * progress)) / 2)


SCHEDULES: dict[str, Schedule] = {"paper": paper, "constant": constant, "cosine": cosine, "fast": cosine}
"""By name. What else `fast` means is in few_steps.py."""
