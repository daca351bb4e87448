"""A client whose training takes milliseconds, for the tests that replay it."""

from __future__ import annotations

import torch
from torch.nn import functional

from leakscope.client.training import Client
from leakscope.types import ClientBatch, LocalTraining, Normalisation
from leakscope.victims import build_victim


def small_client(*, n: int = 6, seed: int = 0, batch_size: int = 2) -> Client:
    """Smooth random images of 12x12 pixels in five classes, on the small convolutional net."""
    coarse = torch.rand(n, 1, 3, 3, generator=torch.Generator().manual_seed(seed))
    images = functional.interpolate(coarse, size=12, mode="bilinear", align_corners=False)
    batch = ClientBatch(images, torch.arange(n) % 5, 5, Normalisation((0.5,), (0.25,)), "small")
    victim = build_victim("cnn-mnist", shape=(1, 12, 12), classes=5, seed=seed)
    return Client(victim, batch, LocalTraining(epochs=2, batch_size=batch_size, lr=0.01), seed)
