"""Gradient dropping inside training."""

from __future__ import annotations

import pytest
import torch

from leakscope.client.training import batch_gradient, train
from leakscope.defenses import Drop, parse_defense
from leakscope.defenses.base import share
from leakscope.errors import InputError
from small import small_client


def steps(defense: Drop, count: int) -> tuple[list[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """What each of several steps at the same weights takes, and their plain gradient."""
    client = small_client(n=4)
    weights = client.victim.weights()
    x, y = client.batch.normalisation.apply(client.batch.images), client.batch.labels
    gradients = defense.gradients(client, seed=0)
    taken = [gradients(client.victim, weights, {}, x, y) for _ in range(count)]
    return taken, batch_gradient(client.victim, weights, {}, x, y)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}])
def test_dropping_nothing_is_plain_training(options: dict[str, object]) -> None:
    client = small_client(epochs=3, **options)
    w0 = client.victim.weights()
    dropped = parse_defense("drop:rate=0").train(client, w0, seed=0)
    plain = train(client, w0)
    assert all(torch.equal(dropped.delta[name], value) for name, value in plain.delta.items())


@pytest.mark.parametrize("rate", [0.25, 0.9])
def test_every_step_takes_the_largest_entries_of_each_tensor(rate: float) -> None:
    (first, *_), plain = steps(Drop(rate=rate), 1)
    for name, value in plain.items():
        moved = first[name] != 0
        assert int(moved.sum()) <= value.numel() - share(rate, value.numel())
        assert torch.equal(first[name][moved], value[moved])
        if moved.any() and not moved.all():
            assert float(value[moved].abs().min()) >= float(value[~moved].abs().max())


@pytest.mark.parametrize(("residual", "lost"), [(True, (0.0, 0.1)), (False, (0.2, 1.0))])
def test_what_a_step_drops_is_not_lost(residual: bool, lost: tuple[float, float]) -> None:
    """The mean step is the plain gradient, but for what waits at the end; forgotten entries are missing for good."""
    taken, plain = steps(Drop(rate=0.9, residual=residual), 100)
    whole = torch.cat([value.flatten() for value in plain.values()])
    mean = torch.cat([torch.stack([step[name] for step in taken]).mean(0).flatten() for name in plain])
    assert lost[0] <= float((mean - whole).norm() / whole.norm()) <= lost[1]


def test_without_a_residual_every_step_is_alone() -> None:
    taken, _ = steps(Drop(rate=0.9, residual=False), 3)
    assert all(torch.equal(taken[0][name], taken[2][name]) for name in taken[0])


def test_a_residual_hides_fewer_entries() -> None:
    client = small_client(epochs=10)
    w0 = client.victim.weights()
    hidden = {
        text: parse_defense(text).train(client, w0, seed=0).notes["drop"]["never_moved"]
        for text in ("drop:rate=0.9", "drop:rate=0.9,residual=off")
    }
    assert hidden["drop:rate=0.9"] < hidden["drop:rate=0.9,residual=off"] < 0.9


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_outside_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        Drop(rate=rate)
