"""How sure a fraction is."""

from __future__ import annotations

import math

from leakscope.errors import Problem, refuse

Z95 = 1.959963984540054


def wilson_interval(hits: int, n: int, *, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a fraction, 95 % unless told; it stays honest at 0 and at n.

    >>> tuple(round(end, 3) for end in wilson_interval(9, 10))
    (0.596, 0.982)
    """
    if not 0 <= hits <= n or n < 1:
        refuse([Problem(f"{hits} hits out of {n}", fix="count between 0 and n, n at least 1")])
    return wilson(hits / n, n, z=z)


def wilson(fraction: float, size: float, *, z: float = Z95) -> tuple[float, float]:
    """The same of a fraction whose variance is that of `size` independent hits or misses."""
    weight = z * z / size
    centre = (fraction + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(fraction * (1 - fraction) / size + weight / (4 * size))
    low, high = centre - half, centre + half
    return (max(0.0, low) if fraction > 0 else 0.0, min(1.0, high) if fraction < 1 else 1.0)
