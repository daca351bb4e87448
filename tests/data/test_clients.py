"""Who a client is: sizes, determinism, writers by value or name, and images it does not have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.data import Dataset, draw_client, held_out
from leakscope.data.dataset import Expected, Samples, assemble
from leakscope.errors import InputError
from leakscope.types import ClientBatch, Normalisation


def make(samples: Samples, classes: int = 62) -> Dataset:
    expected = Expected(classes=classes, channels=(1, 3))
    return assemble("made", samples, expected, normalisation=Normalisation((0.5,), (0.5,)), source=Path("memory"))


def numbered(n: int, **more: object) -> Dataset:
    """Image i shows the number i, so that indices can be read off the pixels."""
    images = np.stack([np.full((2, 2), i // 256 * (j == 0) + i % 256 * (j == 1)) for i in range(n) for j in (0, 1)])
    shown = np.concatenate([images[::2], images[1::2]], axis=2).astype(np.uint8)
    return make(Samples(shown, np.arange(n) % 62, **more))  # type: ignore[arg-type]


def numbers(images: torch.Tensor) -> list[int]:
    pixels = (images * 255).round().long()[:, 0, 0]
    return (pixels[:, 0] * 256 + pixels[:, -1]).tolist()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(1, 60), seed=st.integers(0, 10**9), split=st.booleans())
def test_random_clients(data: st.DataObject, size: int, seed: int, split: bool) -> None:
    splits = np.arange(size) % 3 // 2 if split else None
    training = [i for i in range(size) if splits is None or splits[i] == 0]
    n = data.draw(st.integers(1, len(training)))
    dataset = numbered(size, splits=splits)
    batch = draw_client(dataset, n=n, seed=seed)
    chosen = numbers(batch.images)
    assert len(batch) == len(set(chosen)) == n
    assert set(chosen) <= set(training)
    assert batch.labels.tolist() == [i % 62 for i in chosen]
    assert batch.labels.dtype == torch.int64
    assert batch.writer is None
    again = draw_client(dataset, n=n, seed=seed)
    assert torch.equal(again.images, batch.images)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(any),
    seed=st.integers(0, 10**6),
    strings=st.booleans(),
    data=st.data(),
)
def test_clients_by_writer(counts: list[int], seed: int, strings: bool, data: st.DataObject) -> None:
    values = [7 * i + 3 for i in range(len(counts))]
    order = data.draw(st.permutations([v for v, count in zip(values, counts, strict=True) for _ in range(count)]))
    writers = np.array([f"w{v}" for v in order] if strings else order)
    dataset = numbered(len(writers), writers=writers)
    n = data.draw(st.integers(1, max(counts)))
    eligible = {str(value) for value, count in Counter(writers.tolist()).items() if count >= n}
    batch = draw_client(dataset, n=n, seed=seed)
    assert batch.writer in eligible
    own = [i for i, writer in enumerate(writers.tolist()) if str(writer) == batch.writer]
    assert numbers(batch.images) == own[:n]
    named = draw_client(dataset, n=n, seed=seed + 5, writer=batch.writer)
    assert torch.equal(named.images, batch.images)
    # neighbouring seeds walk through all eligible writers before any comes again
    walked = [draw_client(dataset, n=n, seed=seed + i).writer for i in range(len(eligible))]
    assert set(walked) == eligible


def test_only_training_samples_of_a_writer_count() -> None:
    splits = np.array([1, 0, 0, 1, 0, 0])
    dataset = numbered(6, writers=np.array([5, 5, 5, 9, 9, 5]), splits=splits)
    assert numbers(draw_client(dataset, n=3, seed=0).images) == [1, 2, 5]
    with pytest.raises(InputError, match="has 1 training samples, fewer than n = 2"):
        draw_client(dataset, n=2, seed=0, writer="9")


def test_a_writer_is_chosen_by_value_then_by_name_never_by_place() -> None:
    names = ("zero", "one", "3", "three")
    dataset = numbered(6, writers=np.array([3, 3, 2, 2, 0, 0]), writer_names=names)
    assert numbers(draw_client(dataset, n=2, seed=0, writer="0").images) == [4, 5]
    assert numbers(draw_client(dataset, n=2, seed=0, writer="three").images) == [0, 1]
    assert numbers(draw_client(dataset, n=2, seed=0, writer="3").images) == [0, 1]
    assert draw_client(dataset, n=2, seed=0, writer="three").writer == "3"
    with pytest.raises(InputError, match="unknown writer '1'"):
        draw_client(dataset, n=2, seed=0, writer="1")
    with pytest.raises(InputError, match="unknown writer 'one'"):
        draw_client(dataset, n=2, seed=0, writer="one")  # named, but without a single sample
    with pytest.raises(InputError, match="did you mean 'three'"):
        draw_client(dataset, n=2, seed=0, writer="thre")


def test_pooled_draws_over_all_writers() -> None:
    dataset = numbered(60, writers=np.repeat([0, 1, 2], 20))
    batch = draw_client(dataset, n=50, seed=0, writer="pooled")
    assert batch.writer == "pooled"
    assert {number // 20 for number in numbers(batch.images)} == {0, 1, 2}
    with pytest.raises(InputError, match="larger than the 60 training images"):
        draw_client(dataset, n=61, seed=0, writer="pooled")


def test_no_writer_has_enough() -> None:
    dataset = numbered(6, writers=np.array([0, 0, 0, 1, 1, 1]))
    with pytest.raises(InputError, match="the most are 3") as caught:
        draw_client(dataset, n=4, seed=0)
    assert "--n 3 or less, or --writer pooled" in str(caught.value)


@pytest.mark.parametrize("n", [0, -3])
def test_all_problems_at_once(n: int) -> None:
    with pytest.raises(InputError) as caught:
        draw_client(numbered(4), n=n, seed=0, writer="someone")
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError) as caught:
        draw_client(numbered(4), n=5, seed=0, writer="someone")
    assert len(caught.value.problems) == 2


def test_different_seeds_are_different_clients() -> None:
    dataset = numbered(500)
    drawn = [frozenset(numbers(draw_client(dataset, n=20, seed=seed).images)) for seed in range(10)]
    assert len(set(drawn)) == 10


def test_images_are_pixels_over_255() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    batch = draw_client(make(Samples(images, np.arange(5))), n=5, seed=0)
    assert batch.images.shape == (5, 3, 4, 6)
    expected = torch.from_numpy(images).permute(0, 3, 1, 2)[batch.labels].float() / 255
    assert torch.equal(batch.images, expected)


@settings(max_examples=50, deadline=None)
@given(size=st.integers(2, 40), kinds=st.integers(1, 12), count=st.integers(0, 50), seed=st.integers(0, 99))
def test_held_out_images_are_new_by_content(size: int, kinds: int, count: int, seed: int) -> None:
    content = np.arange(size) % kinds
    dataset = make(Samples(np.tile(content[:, None, None], (1, 3, 3)).astype(np.uint8), content % 62))
    batch = draw_client(dataset, n=max(1, size // 2), seed=seed)
    candidates = held_out(dataset, avoid=batch, count=count, seed=seed)
    private = set((batch.images[:, 0, 0, 0] * 255).round().long().tolist())
    found = (candidates[:, 0, 0, 0] * 255).round().long().tolist()
    assert candidates.shape == (len(found), 1, 3, 3)
    assert not private & set(found)
    assert len(set(found)) == len(found) == min(count, len(set(content.tolist()) - private))
    assert torch.equal(candidates, held_out(dataset, avoid=batch, count=count, seed=seed))


def test_held_out_survives_rounding() -> None:
    images = np.arange(256, dtype=np.uint8)[:, None, None]
    dataset = make(Samples(images, np.arange(256) % 62))
    everything = draw_client(dataset, n=256, seed=0)
    assert len(held_out(dataset, avoid=everything, count=10, seed=0)) == 0
    assert isinstance(everything, ClientBatch)
