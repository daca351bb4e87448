"""Photographs from scikit-image, cut to size, and the ways they are spoilt: the pairs of the reference tests."""

from __future__ import annotations

import torch
from skimage import data
from torch import Tensor
from torch.nn import functional


def photo(name: str, side: int) -> Tensor:
    """(1, 3, side, side) in [0, 1]."""
    pixels = torch.tensor(getattr(data, name)()).permute(2, 0, 1)[None].float() / 255
    small = functional.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    return small.clamp(0, 1)


def blurred(images: Tensor) -> Tensor:
    """Means over 4 x 4 pixels, interpolated back."""
    coarse = functional.avg_pool2d(images, 4)
    return functional.interpolate(coarse, size=images.shape[-2:], mode="bilinear", align_corners=False)


def frozen_pairs() -> dict[str, tuple[Tensor, Tensor]]:
    """The five pairs of astronaut pictures for which SSIM and FSIM of other packages are known."""
    draws = torch.Generator().manual_seed(0)
    large, small = photo("astronaut", 256), photo("astronaut", 32)
    noise = [0.1 * torch.randn(images.shape, generator=draws) for images in (large, small)]
    return {
        "256 noise": (large, (large + noise[0]).clamp(0, 1)),
        "256 blur": (large, blurred(large)),
        "32 noise": (small, (small + noise[1]).clamp(0, 1)),
        "32 blur": (small, blurred(small)),
        "32 unrelated": (small, torch.rand(small.shape, generator=draws)),
    }


def luminance(images: Tensor) -> Tensor:
    """(N, 3, H, W) -> (N, 1, H, W), Y of YIQ."""
    return (images * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def crops(count: int, *, side: int = 32, seed: int = 0) -> Tensor:
    """(count, 3, side, side): different pieces of photographs, for batches of real content."""
    names = ("astronaut", "chelsea", "coffee", "rocket")
    photos = [torch.tensor(getattr(data, name)()).permute(2, 0, 1).float() / 255 for name in names]
    draws = torch.Generator().manual_seed(seed)
    pieces = []
    for place in range(count):
        source = photos[place % len(photos)]
        top, left = (int(torch.randint(size - 96, (1,), generator=draws)) for size in source.shape[1:])
        piece = source[None, :, top : top + 96, left : left + 96]
        pieces.append(functional.interpolate(piece, size=(side, side), mode="area"))
    return torch.cat(pieces)
