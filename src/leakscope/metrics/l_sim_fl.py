"""L_sim^FL: how well a reconstruction explains the update when it goes through the client's own training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakscope.client.training import Client, train
from leakscope.metrics.metric import Case, Column, Metric
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


def _measure(case: Case) -> Column | None:
    """Of the reconstruction, and of the mean of other images with its labels."""
    if case.replay is None:
        return None
    images, labels = case.last.given, case.found.labels
    tried = [images, *(guess.expand_as(images) for guess in case.blind[-1:])]
    with torch.enable_grad():
        last, *guesses = (torch.tensor(case.replay(each, labels), dtype=torch.float64) for each in tried)
    return Column(last, guesses=guesses)


L_SIM_FL = Metric(
    name="l_sim_fl",
    label="L_sim^FL",
    description="1 - cos between the update and that of FedAvg run on the reconstruction",
    meaning="L_sim by a common yardstick: the reconstruction is trained on and its update compared.",
    higher_is_better=False,
    measure=_measure,
    needs="the model, its update and the training settings",
    digits=4,
    has_best=False,
    tables=("report", "results"),
)
