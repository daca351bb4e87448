"""Structural similarity (Wang, Bovik, Sheikh and Simoncelli, IEEE TIP 2004)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.metrics.metric import Metric, of_pairs
from leakscope.metrics.pairs import UnavailableError, check_pair, in_slices

SIDE, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2


def ssim(x: Tensor, y: Tensor) -> Tensor:
    """SSIM of each pair of images in [0, 1], mean over channels: (N, C, H, W) and (N, C, H, W) -> (N,).

    An 11 x 11 Gaussian window of sigma 1.5 at every place where it lies inside the image, no padding. That is
    scikit-image's `gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1`; libraries
    that pad the border give other values on small images.

    >>> ramp = torch.linspace(0, 1, 32).expand(1, 1, 32, 32)
    >>> ssim(ramp, ramp), ssim(ramp, 1 - ramp)
    (tensor([1.]), tensor([-0.5006]))
    """
    check_pair(x, y)
    if min(x.shape[-2:]) < SIDE:
        raise UnavailableError(
            f"SSIM's window of {SIDE}x{SIDE} does not fit into images of {x.shape[-2]}x{x.shape[-1]}"
        )
    return in_slices(_ssim, x, y, pixels=1 << 20)


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    mean_x, mean_y = _blur(x), _blur(y)
    variances = _blur(x * x) - mean_x.square() + _blur(y * y) - mean_y.square()
    covariance = _blur(x * y) - mean_x * mean_y
    light = (2 * mean_x * mean_y + C1) / (mean_x.square() + mean_y.square() + C1)
    structure = (2 * covariance + C2) / (variances + C2)
    return (light * structure).mean((1, 2, 3))


def _blur(images: Tensor) -> Tensor:
    """Gaussian means over the valid windows: (N, C, H, W) -> (N, C, H - 10, W - 10)."""
    steps = torch.arange(SIDE, dtype=images.dtype, device=images.device) - SIDE // 2
    line = torch.exp(-steps.square() / (2 * SIGMA**2))
    line = line / line.sum()
    planes = images.flatten(0, 1)[:, None]
    down = functional.conv2d(planes, line.view(1, 1, -1, 1))
    return functional.conv2d(down, line.view(1, 1, 1, -1)).view(*images.shape[:2], *down.shape[-2:-1], -1)


SSIM = Metric(
    name="ssim",
    label="SSIM",
    description="structural similarity, 11x11 Gaussian window of sigma 1.5, no padding",
    meaning="Agreement of structure, 0 to 1.",
    higher_is_better=True,
    measure=of_pairs(ssim),
)
