"""What a server sees of several clients at once."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope import data
from leakscope.cells.request import Request
from leakscope.cells.scene import make_client, other_clients
from leakscope.errors import InputError
from leakscope.observation.fusion import Fusion, fuse, other_seeds, parse_fusion
from small import DTYPES, SEEDS, SHAPES, random_update


@settings(deadline=None, max_examples=40)
@given(shapes=SHAPES, dtype=DTYPES, seed=SEEDS, rho=st.floats(0.01, 1), count=st.integers(1, 5))
def test_fusion_is_the_weighted_mean(
    shapes: list[list[int]], dtype: torch.dtype, seed: int, rho: float, count: int
) -> None:
    target, *others = (random_update(shapes, dtype, seed + i) for i in range(count + 1))
    fused = fuse(target, others, rho)
    for name, value in fused.delta.items():
        mean = sum(other.delta[name] for other in others) / count
        assert torch.allclose(value, rho * target.delta[name] + (1 - rho) * mean, rtol=1e-5, atol=1e-6)
        assert value.dtype == dtype
    assert (fused.n, fused.training) == (target.n, target.training)


def test_what_training_left_in_the_buffers_is_mixed_like_the_update() -> None:
    target, *others = (
        replace(
            random_update([[3]], torch.float32, seed),
            buffers_after={"mean": torch.full((2,), float(seed)), "steps": torch.tensor(seed)},
        )
        for seed in range(3)
    )
    after = fuse(target, others, 0.5).buffers_after
    assert after["mean"].tolist() == [0.75, 0.75]
    assert int(after["steps"]) == 0
    silent = [replace(others[0], buffers_after={})]
    assert "mean" not in fuse(target, silent, 0.5).buffers_after


def test_rho_one_is_the_single_client_to_the_bit() -> None:
    target, other = (random_update([[5, 3]], torch.float32, seed) for seed in (0, 1))
    assert fuse(target, [other], 1.0) is target
    assert fuse(target, [], 1.0) is target


def test_the_secure_aggregation_mean_treats_all_clients_alike() -> None:
    updates = [random_update([[4, 4]], torch.float64, seed) for seed in range(4)]
    rho = parse_fusion("rho=mean,clients=3").rho
    mean = sum(update.delta["tensor0"] for update in updates) / 4
    for place, target in enumerate(updates):
        others = updates[:place] + updates[place + 1 :]
        assert torch.allclose(fuse(target, others, rho).delta["tensor0"], mean)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "rho=0.75,clients=4"),
        ("rho=0.5", "rho=0.5,clients=4"),
        ("clients=9,rho=mean", "rho=0.1,clients=9"),
        ("rho=mean,clients=2", "rho=0.3333333333333333,clients=2"),
    ],
)
def test_the_canonical_string_reads_back(text: str, canonical: str) -> None:
    assert str(parse_fusion(text)) == canonical
    assert parse_fusion(canonical) == parse_fusion(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("rho=0,clients=0", "rho=0 is not"), ("rho=0,clients=0", "clients=0"), ("roh=0.5", "did you mean 'rho'"),
     ("rho=1.5", "not at most 1"), ("rho=some", "not a number")],
)  # fmt: skip
def test_bad_fusions_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        parse_fusion(text)


def test_other_models_and_no_others_are_refused() -> None:
    target = random_update([[3]], torch.float32, 0)
    with pytest.raises(InputError, match="update 1 has other tensors"):
        fuse(target, [random_update([[3]], torch.float32, 1), random_update([[4]], torch.float32, 1)], 0.5)
    with pytest.raises(InputError, match="no other update"):
        fuse(target, [], 0.5)


def test_other_clients_are_drawn_from_the_targets_seed() -> None:
    for seed in range(50):
        chosen = other_seeds(seed, Fusion().clients)
        assert chosen == other_seeds(seed, 4)
        assert len({seed, *chosen}) == 5
    assert other_seeds(0, 4)[:2] == other_seeds(0, 2)
    assert not set(other_seeds(0, 8)) & set(other_seeds(1, 8))


@pytest.mark.skipif("LEAKSCOPE_DATA" not in os.environ, reason="FEMNIST is not here: LEAKSCOPE_DATA names no folder")
@pytest.mark.parametrize(("seed", "writer"), [(3, None), (11, None), (42, "42")])
def test_a_writer_is_never_mixed_with_itself(seed: int, writer: str | None) -> None:
    """These seeds once drew the target's own writer, or one writer twice."""
    dataset = data.load("femnist")
    (cell,) = Request(dataset="femnist", seed=seed, writer=writer, fuse="rho=0.75,clients=4").cells(dataset)
    client = make_client(cell.client, dataset, seed)
    writers = [other.batch.writer for other in other_clients(cell, dataset, client, 4)]
    assert len({*writers, client.batch.writer}) == 5
