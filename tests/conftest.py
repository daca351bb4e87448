"""Small real scenes that many tests share."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from leakscope.client import Client, train
from leakscope.observation import Observation, observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation, stream
from leakscope.victims import build_victim

torch.set_num_threads(1)


def tiny_client(*, model: str = "cnn-mnist", n: int = 4, seed: int = 0, **training: object) -> Client:
    """A client with smooth random images, 12x12 and five classes, so that a test takes milliseconds."""
    coarse = torch.rand(n, 1, 3, 3, generator=stream(seed, "test images"))
    images = torch.nn.functional.interpolate(coarse, size=12, mode="bilinear", align_corners=False)
    labels = torch.arange(n) % 5
    batch = ClientBatch(images, labels, 5, Normalisation((0.5,), (0.25,)), "tiny")
    settings = LocalTraining(**{"epochs": 2, "batch_size": min(2, n), "lr": 0.01, **training})  # type: ignore[arg-type]
    return Client(build_victim(model, shape=(1, 12, 12), classes=5, seed=seed), batch, settings, seed)


def tiny_observation(client: Client | None = None) -> Observation:
    client = client or tiny_client()
    update = train(client, client.victim.weights())
    return observe(
        update,
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )


@pytest.fixture
def client() -> Client:
    return tiny_client()


@pytest.fixture
def observation(client: Client) -> Observation:
    return tiny_observation(client)
