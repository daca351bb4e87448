"""The data sets themselves, where LEAKSCOPE_DATA has them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from leakscope.data import DATASETS, draw_client, held_out, load, where

pytestmark = pytest.mark.skipif("LEAKSCOPE_DATA" not in os.environ, reason="LEAKSCOPE_DATA is not set")


@pytest.mark.parametrize("name", [name for name, info in DATASETS.items() if info.forms])
def test_every_data_set_that_is_there(name: str) -> None:
    if where(name) is None:
        pytest.skip(f"{name} is not under LEAKSCOPE_DATA")
    dataset = load(name)
    writer = None if dataset.writers is None else "pooled"
    batch = draw_client(dataset, n=50, seed=0, writer=writer)
    candidates = held_out(dataset, avoid=batch, count=100, seed=0)
    assert batch.images.shape == (50, *dataset.shape)
    assert candidates.shape == (100, *dataset.shape)
    pixels = dataset.images.reshape(-1, dataset.shape[0]) / 255
    # the constants fit the data: normalised pixels are roughly centred with roughly unit spread
    normalised = (pixels.mean(axis=0) - dataset.normalisation.mean) / np.array(dataset.normalisation.std)
    assert np.abs(normalised).max() < 0.15
    assert 0.5 < (pixels.std(axis=0) / dataset.normalisation.std).min() < 1.2


def test_femnist_clients_are_writers() -> None:
    if where("femnist") is None:
        pytest.skip("femnist is not under LEAKSCOPE_DATA")
    dataset = load("femnist")
    assert dataset.writers is not None
    batches = [draw_client(dataset, n=50, seed=seed) for seed in range(10)]
    assert len({batch.writer for batch in batches}) == 10
    for batch in batches:
        own = np.flatnonzero((dataset.writers.astype(str) == batch.writer) & (dataset.splits == 0))
        np.testing.assert_array_equal((batch.images[:, 0] * 255).round().numpy(), dataset.images[own[:50], :, :, 0])
