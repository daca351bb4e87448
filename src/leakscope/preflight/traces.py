"""Traces that a transform leaves in the numbers of an update: suppression, rounding, noise, mixing."""

from __future__ import annotations

import math

import torch

from leakscope.attacks.known import Known
from leakscope.attacks.reliability import ZEROS, noise_level, zeros
from leakscope.types import Weights

GAP = 0.2
LEVELS = 256
MANY = 4096


def suppressed(delta: Weights) -> str | None:
    """The name of a weight tensor whose small values were set to zero.

    Dead units leave exact zeros too, up to three quarters of a tensor of a trained net, but beside values of every
    size; pruning leaves none below its threshold.
    """
    for name, value in delta.items():
        kept = value[value != 0].abs().double()
        if zeros(value) > ZEROS and len(kept) >= 20 and kept.quantile(0.01) > GAP * kept.median():
            return name
    return None


def rounded(delta: Weights) -> str | None:
    """The name of a large tensor that holds few different values."""
    for name, value in delta.items():
        if value.numel() >= MANY and len(torch.unique(value)) <= LEVELS:
            return name
    return None


def half_precision(weights: Weights) -> str | None:
    """`float16` or `bfloat16` where every weight matrix holds only values of that type, stored as such or not."""
    matrices = [value for value in weights.values() if value.dim() > 1]
    for kind in (torch.float16, torch.bfloat16):
        if matrices and all(torch.equal(value.to(kind).double(), value.double()) for value in matrices):
            return str(kind).removeprefix("torch.")
    return None


def noise_share(known: Known) -> float:
    """Share of the update's energy that is noise, as reliability-aware matching estimates it."""
    return noise_level(known) ** 2 * known.delta.numel() / float(known.delta.double().square().sum())


def beyond_rank(known: Known) -> float | None:
    """Share of the first fully connected layer's energy beyond the rank that N images explain; None if it is small.

    The update of that layer is a sum of N outer products per step, with features that hardly move: rank about N.
    """
    if known.feature_layer is None:
        return None
    sizes = torch.linalg.svdvals(known.split(known.delta)[f"{known.feature_layer}.weight"].double()).square()
    rank = math.ceil(1.3 * known.n)
    if len(sizes) <= rank + 8:
        return None
    return float(sizes[rank:].sum() / sizes.sum())


def round_norm(delta: Weights, lr: float) -> tuple[str, float] | None:
    """A norm of the update or the gradient that is a number of two digits: what clipping leaves behind."""
    norm = math.sqrt(sum(float(value.double().square().sum()) for value in delta.values()))
    for what, size in (("update", norm), ("gradient", norm / lr)):
        if math.isclose(size, float(f"{size:.2g}"), rel_tol=1e-5):
            return what, float(f"{size:.2g}")
    return None
