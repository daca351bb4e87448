"""Data sets of random images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakscope.data.dataset import Array, Dataset, Expected, Samples, assemble
from leakscope.types import Normalisation


def noisy(n: int, *, classes: int, side: int = 6, writers: Array | None = None) -> Dataset:
    """Random images of one channel, the classes in turn."""
    images = np.random.default_rng(0).integers(0, 256, (n, side, side), dtype=np.uint8)
    samples = Samples(images, np.arange(n) % classes, writers=writers)
    expected = Expected(classes=classes, channels=(1,))
    return assemble("made", samples, expected, normalisation=Normalisation((0.5,), (0.25,)), source=Path("memory"))
