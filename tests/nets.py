"""Nets of one kind each, so small that an attack takes milliseconds, and what is seen of a client that trains one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from leakscope.client.training import Client
from leakscope.defenses import parse_defense
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge
from leakscope.victims import Victim
from scenes import tiny_client

NETS: dict[str, Callable[[], nn.Module]] = {
    "convolutions": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=2), nn.Sigmoid(), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5)
    ),
    "kinks": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(288, 32),
        nn.ReLU(),
        nn.Linear(32, 5),
    ),
    "layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 5)),
    "layer norms": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(144, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 5)
    ),
}


def seen_of(net: str, defense: str = "none", *, dtype: torch.dtype = torch.float32) -> Observation:
    """A client of four images, with everything granted."""
    given = tiny_client(n=4)
    torch.manual_seed(0)
    victim = Victim(net, NETS[net]().eval().to(dtype), (1, 12, 12), given.batch.classes)
    batch = replace(given.batch, images=given.batch.images.to(dtype))
    client = Client(victim, batch, given.training)
    return observe(
        parse_defense(defense).train(client, victim.weights(), seed=0),
        victim,
        knowledge=Knowledge(auxiliary=True),
        normalisation=given.batch.normalisation,
        labels=given.batch.labels,
        declared_defense=defense,
    )
