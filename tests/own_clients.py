"""Clients of one's own, small enough to be audited in a test."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leakscope.client.own import LocalClient
from leakscope.types import LocalTraining
from small import small_client


def normed() -> nn.Module:
    """Batch norm and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(576, 5)
    )


class Tied(nn.Module):
    """Two layers that share one weight, a frozen layer, and a parameter that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(144, 144), nn.Linear(144, 144), nn.Linear(144, 5)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(144, 144).requires_grad_(False)
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        """(N, 1, 12, 12) -> (N, 5)."""
        hidden = torch.relu(self.first(self.frozen(x.flatten(1))))
        logits: Tensor = self.head(torch.relu(self.second(hidden)))
        return logits


def own(model=normed, **changes: object) -> LocalClient:
    batch = small_client(n=6).batch
    settings = {"epochs": 2, "batch_size": 3, "lr": 0.05, **changes.pop("training", {})}  # type: ignore[dict-item]
    return LocalClient(
        **{
            "model": model,
            "images": batch.images,
            "labels": batch.labels,
            "classes": 5,
            "training": LocalTraining(**settings),
            "normalisation": batch.normalisation,
            "candidates": small_client(n=9, seed=1).batch.images,
            **changes,
        }
    )
