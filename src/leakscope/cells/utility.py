"""What a defense costs: test accuracy of the global model after some defended rounds, against undefended ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leakscope import data
from leakscope.cells.spec import ClientSpec
from leakscope.client.start import starting_weights
from leakscope.client.training import Client
from leakscope.data import Dataset
from leakscope.defenses import Pipeline, parse_defense
from leakscope.types import ClientBatch, LocalTraining, Update, Weights, stream
from leakscope.victims import Victim, build_victim

TEST_IMAGES = 2000
TEST_SHARE = 0.2
"""Of a data set without test images of its own; the rest is for the clients and for pretraining."""
CLIENT_SEEDS = 10_000
"""Clients of the rounds are drawn from seeds that no audited client has."""


@dataclass(frozen=True)
class Trained(Victim):
    """A victim between rounds: its batch-norm statistics are not those that its module was built with."""

    statistics: Weights

    def buffers(self) -> dict[str, Tensor]:
        """Where the rounds so far have left them."""
        return {name: self.statistics.get(name, value).clone() for name, value in super().buffers().items()}


@lru_cache(maxsize=64)
def accuracy_after(client: ClientSpec, data_root: Path | None, defense: str) -> float:
    """Share of test images classified correctly after FedAvg rounds in which every client applies the defense."""
    dataset, images, labels = set_apart(data.load(client.dataset, root=data_root), seed=client.seed)
    victim = build_victim(str(client.model), shape=dataset.shape, classes=dataset.classes, seed=client.seed)
    writer = None if dataset.writers is None else "pooled"
    first = CLIENT_SEEDS + client.seed * client.federation
    seeds = range(first, first + client.federation)
    batches = [data.draw_client(dataset, n=client.n, seed=each, writer=writer) for each in seeds]
    start = starting_weights(client.w0, victim, dataset, avoid=batches[0], seed=client.seed)
    victim, w = federate(victim, start, batches, client.training, parse_defense(defense), rounds=client.rounds)
    return _accuracy(victim, w, dataset, images, labels)


def set_apart(dataset: Dataset, *, seed: int) -> tuple[Dataset, Tensor, Tensor]:
    """What may be trained on, and the test images (n, C, H, W) uint8 with their labels (n,).

    The test images are drawn first: from the data set's own where it has some. No copy of one is left to train on.
    """
    own = np.arange(0) if dataset.splits is None else np.flatnonzero(dataset.splits)
    pool, count = (own, len(own)) if len(own) else (np.arange(len(dataset)), math.ceil(TEST_SHARE * len(dataset)))
    order = torch.randperm(len(pool), generator=stream(seed, "test images"))
    test = pool[order[: min(count, TEST_IMAGES)].numpy()]
    drawn = {image.tobytes() for image in dataset.images[test]}
    free = np.array([image.tobytes() not in drawn for image in dataset.images])
    rest = replace(
        dataset,
        images=dataset.images[free],
        labels=dataset.labels[free],
        writers=None if dataset.writers is None else dataset.writers[free],
        splits=None if dataset.splits is None else dataset.splits[free],
    )
    return rest, torch.from_numpy(dataset.images[test]).permute(0, 3, 1, 2), torch.from_numpy(dataset.labels[test])


def federate(
    victim: Victim,
    w: Weights,
    batches: Sequence[ClientBatch],
    training: LocalTraining,
    pipeline: Pipeline,
    *,
    rounds: int,
) -> tuple[Victim, Weights]:
    """The global model after some rounds: the mean of the clients' weights, and of their batch-norm statistics."""
    for turn in range(rounds):
        updates = [
            pipeline.train(Client(victim, batch, training, seed=seed), w, seed=seed)
            for seed, batch in enumerate(batches, start=turn * len(batches))
        ]
        w = {name: value - torch.stack([update.delta[name] for update in updates]).mean(0) for name, value in w.items()}
        victim = Trained(victim.name, victim.module, victim.shape, victim.classes, _statistics(updates))
    return victim, w


def _statistics(updates: Sequence[Update]) -> dict[str, Tensor]:
    """The mean over the clients; counters, which are the same for all of them, stay whole numbers."""
    stacks = {
        name: torch.stack([update.buffers_after[name] for update in updates]) for name in updates[0].buffers_after
    }
    return {name: each.mean(0) if each.is_floating_point() else each[0] for name, each in stacks.items()}


def _accuracy(victim: Victim, w: Weights, dataset: Dataset, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        chosen = [
            victim.call(w, victim.buffers(), dataset.normalisation.apply(piece.float() / 255)).argmax(1)
            for piece in torch.split(images, 200)
        ]
    return float((torch.cat(chosen) == labels).float().mean())
