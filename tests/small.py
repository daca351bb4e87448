"""Small real clients and random updates for the tests of defenses, fusion and labels."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch.nn import functional

from leakscope.client.training import Client
from leakscope.types import ClientBatch, LocalTraining, Normalisation, Update, stream
from leakscope.victims import build_victim

SIDE, CLASSES = 12, 5
SHAPES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4)
DTYPES = st.sampled_from([torch.float32, torch.float64])
SEEDS = st.integers(0, 2**20)


def small_client(*, model: str = "cnn-mnist", n: int = 6, seed: int = 0, **training: object) -> Client:
    """Smooth random images, 12x12, with five classes in turn."""
    coarse = torch.rand(n, 1, 3, 3, generator=stream(seed, "small images"))
    images = functional.interpolate(coarse, size=SIDE, mode="bilinear", align_corners=False)
    batch = ClientBatch(images, torch.arange(n) % CLASSES, CLASSES, Normalisation((0.5,), (0.25,)), "small")
    settings = LocalTraining(**{"epochs": 2, "batch_size": min(3, n), "lr": 0.01, **training})  # type: ignore[arg-type]
    return Client(build_victim(model, shape=(1, SIDE, SIDE), classes=CLASSES, seed=seed), batch, settings, seed)


def random_update(shapes: list[list[int]], dtype: torch.dtype, seed: int, *, lr: float = 0.01) -> Update:
    """An update of any shapes; no two magnitudes are equal and none is zero."""
    draw = stream(seed, "random update")
    delta = {f"tensor{i}": torch.randn(shape, generator=draw, dtype=dtype) for i, shape in enumerate(shapes)}
    w0 = {name: torch.randn(value.shape, generator=draw, dtype=dtype) for name, value in delta.items()}
    return Update(w0=w0, delta=delta, training=LocalTraining(lr=lr), n=10)


CLIENT = small_client()
"""For defenses that never look at it."""
