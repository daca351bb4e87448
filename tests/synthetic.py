"""A data root in the paper's layout with drawn images: the loaders are the real ones, the pictures are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_cifar(root: Path, *, count: int = 60) -> None:
    """cifar100.npz: colour blobs of low contrast."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(96, 160, (count, 4, 4, 3), dtype=np.uint8)
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "cifar100.npz", images=coarse.repeat(8, axis=1).repeat(8, axis=2), labels=np.arange(count) % 100)
