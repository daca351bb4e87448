"""Tiny diffusion priors for tests: real networks with few channels, trained for a step or two."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional

from leakscope.prior.images import PublicImages
from leakscope.prior.training import Recipe, Training, fit, store
from leakscope.types import stream


def public_images(*, colours: int = 1, side: int = 12, count: int = 20) -> PublicImages:
    """Smooth random images, other ones than those of the small clients."""
    coarse = torch.rand(count, colours, 3, 3, generator=stream(7, "public images"))
    smooth = functional.interpolate(coarse, size=side, mode="bilinear", align_corners=False)
    return PublicImages((smooth * 255).round().byte(), "smooth", "0123456789abcdef", "none")


def tiny_training(*, seed: int = 0, **images: int) -> Training:
    return Training(public_images(**images), Recipe(channels=8, batch_size=4, seed=seed, warm_up=1))


def tiny_prior(folder: Path, *, steps: int = 1, **images: int) -> Path:
    """A prior folder for images of 12x12."""
    training = tiny_training(**images)
    assert fit(training, folder, steps=steps)
    store(training, folder)
    return folder
