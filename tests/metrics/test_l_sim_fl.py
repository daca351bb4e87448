from __future__ import annotations

import math

import pytest
import torch

from leakscope.client.training import train
from leakscope.metrics.l_sim_fl import cosine_distance, l_sim_fl
from small import small_client


def replayed(images: torch.Tensor, *, orders: int = 3, seed: int = 0, batch_size: int = 2) -> float:
    """L_sim^FL of some images for the update of the small client."""
    client = small_client(n=6, batch_size=batch_size)
    w0 = client.victim.weights()
    delta = train(client, w0).delta
    settings, batch = client.training, client.batch
    return l_sim_fl(
        client.victim, w0, delta, settings, images, batch.labels, batch.normalisation, orders=orders, seed=seed
    )


def test_the_private_images_in_the_clients_order_explain_everything() -> None:
    assert replayed(small_client(n=6, batch_size=2).batch.images, orders=1) == pytest.approx(0, abs=1e-9)


def test_a_full_batch_has_no_order() -> None:
    images = small_client(n=6, batch_size=2).batch.images
    assert replayed(images, batch_size=6, seed=5) == pytest.approx(0, abs=1e-6)


def test_other_orders_leave_little_and_wrong_images_much() -> None:
    images = small_client(n=6, batch_size=2).batch.images
    truth = replayed(images, seed=1)
    assert 0 < truth < 0.01
    assert replayed(1 - images, seed=1) > 5 * truth


def test_is_the_mean_over_the_orders() -> None:
    images = small_client(n=6, batch_size=2).batch.images.flip(3)
    single = [replayed(images, orders=1, seed=seed) for seed in (4, 5, 6)]
    assert replayed(images, seed=4) == pytest.approx(sum(single) / 3)


def test_cosine_distance_ignores_length_and_survives_zero() -> None:
    a = {"w": torch.tensor([[1.0, 2.0]]), "b": torch.tensor([2.0])}
    assert cosine_distance(a, {name: 7 * value for name, value in a.items()}) == pytest.approx(0, abs=1e-12)
    assert cosine_distance(a, {name: -value for name, value in a.items()}) == pytest.approx(2)
    assert cosine_distance(a, {name: 0 * value for name, value in a.items()}) == 1
    assert math.isnan(cosine_distance(a, {name: torch.nan * value for name, value in a.items()}))
