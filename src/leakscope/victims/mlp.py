"""Fully connected victims."""

from __future__ import annotations

import math

from torch import nn


def mlp(shape: tuple[int, int, int], classes: int, *, width: int = 1000) -> nn.Module:
    """784-1000-1000-62 as in the SME code, which puts a ReLU on the logits too."""
    return nn.Sequential(*mlp_tiny(shape, classes, width=width), nn.ReLU())


def mlp_tiny(shape: tuple[int, int, int], classes: int, *, width: int = 1024) -> nn.Sequential:
    """Three layers with 1024 hidden neurons, for Tiny-ImageNet (paper, section 5.1)."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, classes),
    )
