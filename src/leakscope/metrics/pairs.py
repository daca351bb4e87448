"""What every comparison of two image batches shares: checks, working in slices, and a way to say "cannot"."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leakscope.errors import Problem, refuse

Comparison = Callable[[Tensor, Tensor], Tensor]
"""(N, C, H, W) and (N, C, H, W) in [0, 1] -> (N,): one value per pair of images."""


class UnavailableError(Exception):
    """A metric that cannot be computed here; its message is the reason that is printed next to the null."""


def check_pair(x: Tensor, y: Tensor) -> None:
    """Both (N, C, H, W), of one shape and floating point."""
    problems = [
        Problem(
            f"images of shape {tuple(z.shape)} and type {z.dtype}",
            fix="give floats in [0, 1] as (N, C, H, W)",
        )
        for z in (x, y)
        if z.ndim != 4 or not z.is_floating_point()
    ]
    if x.shape != y.shape:
        problems.append(
            Problem(
                f"images of {tuple(x.shape)} cannot be compared with images of {tuple(y.shape)}",
                fix="give one reconstruction of the same size for each original",
            )
        )
    refuse(problems)


def in_slices(compare: Comparison, x: Tensor, y: Tensor, *, pixels: int) -> Tensor:
    """Run a comparison over slices of about `pixels` pixels, so that memory does not grow with N."""
    size = max(1, pixels // max(1, x.shape[-2] * x.shape[-1]))
    starts = range(0, len(x), size)
    return torch.cat([compare(x[start : start + size], y[start : start + size]) for start in starts])
