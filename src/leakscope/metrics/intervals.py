"""How sure a number is: Wilson's interval for fractions, the bootstrap for means over clients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from leakscope.errors import Problem, refuse
from leakscope.types import stream

Z95 = 1.959963984540054


def wilson_interval(hits: int, n: int, *, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a fraction, 95 % unless told; it stays honest at 0 and at n.

    >>> tuple(round(end, 3) for end in wilson_interval(9, 10))
    (0.596, 0.982)
    """
    if not 0 <= hits <= n or n < 1:
        refuse([Problem(f"{hits} hits out of {n}", fix="count between 0 and n, n at least 1")])
    fraction, weight = hits / n, z * z / n
    centre = (fraction + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(fraction * (1 - fraction) / n + weight / (4 * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, level: float = 0.95, draws: int = 10_000
) -> tuple[float, float] | None:
    """Percentile bootstrap of the mean over clients; None for fewer than two, of which no spread is known.

    >>> bootstrap_interval([20.0, 22.0, 24.0]), bootstrap_interval([20.0])
    ((20.0, 24.0), None)
    """
    if len(values) < 2:
        return None
    pool = torch.tensor(values, dtype=torch.float64)
    chosen = torch.randint(len(values), (draws, len(values)), generator=stream(seed, "bootstrap"))
    means = pool[chosen].mean(1).sort().values
    tail = (1 - level) / 2
    return float(means[int(tail * (draws - 1))]), float(means[math.ceil((1 - tail) * (draws - 1))])
