"""L_sim^FL: how well a reconstruction explains the update when it goes through the client's own training."""

from __future__ import annotations

import math

from torch import Tensor

from leakscope.client.training import Client, train
from leakscope.types import ClientBatch, LocalTraining, Normalisation, Weights
from leakscope.victims import Victim

ORDERS = 3


def l_sim_fl(
    victim: Victim,
    w0: Weights,
    delta: Weights,
    training: LocalTraining,
    images: Tensor,
    labels: Tensor,
    normalisation: Normalisation,
    *,
    orders: int = ORDERS,
    seed: int = 0,
) -> float:
    """1 - cos between the observed delta = w0 - wT and that of FedAvg run on the reconstruction.

    `images` (N, C, H, W) in [0, 1] with their `labels`. The mean over a few batch orders, as the attacker
    does not know the client's: the private images themselves score a little above 0. Unlike L_sim, no attack
    optimises it directly and it means the same for every attack.
    """
    batch = ClientBatch(images, labels, victim.classes, normalisation, "reconstruction")
    replays = (train(Client(victim, batch, training, seed=seed + order), w0) for order in range(orders))
    return sum(cosine_distance(delta, replay.delta) for replay in replays) / orders


def cosine_distance(a: Weights, b: Weights) -> float:
    """1 - cos over all tensors of `a`, in double precision; 1 where either is zero.

    >>> import torch
    >>> cosine_distance({"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([3.0, 4.0])})
    0.4
    """
    pairs = [
        (value.detach().cpu().double().flatten(), b[name].detach().cpu().double().flatten())
        for name, value in a.items()
    ]
    inner = sum(float(x @ y) for x, y in pairs)
    squares = [sum(float(z @ z) for z in side) for side in zip(*pairs, strict=True)]
    return 1 - inner / math.sqrt(math.prod(squares)) if all(squares) else 1.0
