"""Dead leaves: images of nothing that have the statistics of photographs, drawn without any data.

Discs and boxes of random colour fall on each other until they cover the plane. With radii distributed as r^-3 the
result has the edges, flat regions and power spectrum of natural images (Lee, Mumford, Huang 2001).
"""

from __future__ import annotations

import torch
from torch import Tensor

LEAVES = 80
"""Per image."""
SMALLEST, LARGEST = 0.1, 0.6
"""Radii as parts of the side."""
SATURATION = 0.5
"""How much of a leaf's colour is its own in each channel; the rest is one grey."""


def dead_leaves(count: int, shape: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """(count, C, H, W) in [0, 1]."""
    channels, height, width = shape
    side = max(height, width)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=generator)

    down = (torch.arange(height) + 0.5).view(1, -1, 1) / side
    across = (torch.arange(width) + 0.5).view(1, 1, -1) / side
    images = torch.full((count, channels, height, width), 0.5)
    for _ in range(LEAVES):
        spread = uniform(count, 1, 1)
        radius = (LARGEST**-2 + spread * (SMALLEST**-2 - LARGEST**-2)) ** -0.5  # density r^-3
        y, x = uniform(count, 1, 1) * height / side, uniform(count, 1, 1) * width / side
        turn = uniform(count, 1, 1) * torch.pi
        u = (down - y) * turn.cos() + (across - x) * turn.sin()
        v = (across - x) * turn.cos() - (down - y) * turn.sin()
        stretch = 0.5 + uniform(count, 1, 1)
        disc = (u * stretch).square() + (v / stretch).square() < radius.square()
        box = torch.maximum((u * stretch).abs(), (v / stretch).abs()) < radius
        leaf = torch.where(uniform(count, 1, 1) < 0.5, disc, box)
        grey, own = uniform(count, 1, 1, 1), uniform(count, channels, 1, 1)
        colour = (1 - SATURATION) * grey + SATURATION * own if channels > 1 else grey
        slope = (uniform(count, 1, 1, 1) - 0.5) * u[:, None] + (uniform(count, 1, 1, 1) - 0.5) * v[:, None]
        images = torch.where(leaf[:, None], (colour + 0.5 * slope).clamp(0, 1), images)
    return images
