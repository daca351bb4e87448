"""Images in the frame of a diffusion model: a square with a power of two as its side, values in [-1, 1]."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional

SMALLEST = 8
"""Side at which the networks attend; sides are this times a power of two."""


def side_for(shape: tuple[int, int, int]) -> int:
    """The side of the frame for images (C, H, W): 32 for 28x28 and 32x32, 64 for 64x64.

    >>> side_for((1, 28, 28)), side_for((3, 64, 64))
    (32, 64)
    """
    return SMALLEST << max(0, math.ceil(math.log2(max(shape[1:]) / SMALLEST)))


def put_in_frame(images: Tensor, side: int) -> Tensor:
    """(N, C, H, W) in [0, 1] -> (N, C, side, side) in [-1, 1]; the border of an image goes on to the frame."""
    height, width = images.shape[2:]
    top, left = (side - height) // 2, (side - width) // 2
    margins = (left, side - width - left, top, side - height - top)
    return 2 * functional.pad(images, margins, mode="replicate") - 1


def take_from_frame(framed: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """(N, C, side, side) in [-1, 1] -> the images (N, C, H, W) in its middle, in [0, 1]."""
    _, height, width = shape
    top, left = (framed.shape[2] - height) // 2, (framed.shape[3] - width) // 2
    return (framed[..., top : top + height, left : left + width] + 1) / 2
