"""Peak signal-to-noise ratio."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.metrics.metric import Metric, of_pairs
from leakscope.metrics.pairs import check_pair

CAP = 100.0
"""dB given to identical images. Rounding to 8 bits alone leaves 59 dB, so nothing real comes near it."""


def mse(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared error of each pair: (N, C, H, W) and (N, C, H, W) -> (N,)."""
    check_pair(x, y)
    return (x - y).square().mean((1, 2, 3))


def psnr(x: Tensor, y: Tensor) -> Tensor:
    """10 log10(1 / MSE) in dB of each pair of images in [0, 1] -> (N,), at most `CAP`.

    The score of a batch is the mean of these values, not the PSNR of the mean error.

    >>> psnr(torch.zeros(2, 1, 8, 8), torch.tensor([0.1, 0.0]).view(2, 1, 1, 1).expand(2, 1, 8, 8))
    tensor([ 20., 100.])
    """
    return 10 * torch.log10(1 / mse(x, y).clamp_min(10 ** (-CAP / 10)))


PSNR = Metric(
    name="psnr",
    label="PSNR",
    description="mean over images of 10 log10(1 / MSE); identical images are given 100 dB",
    meaning="Pixel error in decibels, mean over images. Depends on the data: a white page already scores well on "
    "handwriting, so only the distance to the guess says something.",
    higher_is_better=True,
    measure=of_pairs(psnr),
    unit="dB",
    digits=2,
    beside_guess=True,
)
