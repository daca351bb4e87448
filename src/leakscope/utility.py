"""What a defense costs: test accuracy of the global model after some defended rounds, against undefended ones."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from leakscope import data
from leakscope.client import Client
from leakscope.data import Dataset
from leakscope.defenses import parse_defense
from leakscope.start import others, starting_weights
from leakscope.types import ClientBatch, LocalTraining
from leakscope.victims import Victim, build_victim

TEST_IMAGES = 2000
CLIENT_SEEDS = 10_000
"""Clients of the rounds are drawn from seeds that no audited client has."""


@lru_cache(maxsize=64)
def accuracy_after(
    dataset_name: str,
    data_root: Path | None,
    model: str,
    defense: str,
    w0: str,
    training: LocalTraining,
    *,
    n: int,
    seed: int,
    rounds: int,
    clients: int,
) -> float:
    """Share of held-out images classified correctly after FedAvg rounds in which every client applies the defense."""
    dataset = data.load(dataset_name, root=data_root)
    victim = build_victim(model, shape=dataset.shape, classes=dataset.classes, seed=seed)
    pipeline = parse_defense(defense)
    writer = None if dataset.writers is None else "pooled"
    seeds = range(CLIENT_SEEDS + seed * clients, CLIENT_SEEDS + (seed + 1) * clients)
    batches = [data.draw_client(dataset, n=n, seed=each, writer=writer) for each in seeds]
    w = starting_weights(w0, victim, dataset, avoid=batches[0], seed=seed)
    for turn in range(rounds):
        updates = [
            pipeline.train(Client(victim, batch, training, seed=turn * clients + place), w, seed=turn * clients + place)
            for place, batch in enumerate(batches)
        ]
        w = {name: value - torch.stack([update.delta[name] for update in updates]).mean(0) for name, value in w.items()}
    return _accuracy(victim, w, dataset, *_test_set(dataset, batches))


def _test_set(dataset: Dataset, batches: list[ClientBatch]) -> tuple[Tensor, Tensor]:
    """Images that no client of the rounds holds, however many there are up to TEST_IMAGES."""
    images = torch.cat([batch.images for batch in batches])
    everything = ClientBatch(images, torch.zeros(len(images)), dataset.classes, dataset.normalisation, dataset.name)
    free, labels = others(dataset, everything)
    return free[:TEST_IMAGES], labels[:TEST_IMAGES]


def _accuracy(victim: Victim, w: dict[str, Tensor], dataset: Dataset, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        chosen = [
            victim.call(w, victim.buffers(), dataset.normalisation.apply(piece.float() / 255)).argmax(1)
            for piece in torch.split(images, 200)
        ]
    return float((torch.cat(chosen) == labels).float().mean())
