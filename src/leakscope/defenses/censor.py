"""CENSOR: an update that is orthogonal to the true one in every layer, and still lowers the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.client.training import Client
from leakscope.defenses.base import FINITE, Checked, changed
from leakscope.options import Range
from leakscope.types import Update, Weights, stream


@dataclass(frozen=True, kw_only=True)
class Censor(Checked):
    """Send z_perp = z - <z, g> g / ||g||², rescaled to ||g||, per tensor (CENSOR, NDSS 2025).

    Of `trials` random draws the one with the lowest loss on the client's images after a probe step of size
    `probe` is sent. Where none lies below the loss at w0, the true update is sent, as the authors do; the
    notes say so. The projection divides by ||g||² (the released code divides by ||g||, which is orthogonal
    only for unit g). Acts on the accumulated gradient of the round. A tensor of one entry has no orthogonal
    direction: zero is sent.
    """

    trials: Annotated[int, FINITE] = 20
    probe: Annotated[float, Range("(0, inf)")] = 1e-4

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """The best orthogonal draw, or the true update."""
        step = self.probe / update.training.lr
        start = lowest = probe_loss(client, update, {name: torch.zeros_like(v) for name, v in update.delta.items()})
        best: Weights = update.delta
        for candidate in orthogonal_draws(update.delta, self.trials, stream(seed, "censor defense")):
            loss = probe_loss(client, update, {name: step * value for name, value in candidate.items()})
            if loss < lowest:
                best, lowest = candidate, loss
        notes = {"censor": {"replaced": best is not update.delta, "loss_before": start, "loss_after": lowest}}
        return changed(update, best, notes)


def orthogonal_draws(delta: Weights, trials: int, generator: torch.Generator) -> Iterator[dict[str, Tensor]]:
    """Random updates, each orthogonal to `delta` and as long as it, tensor by tensor."""
    for _ in range(trials):
        yield {name: orthogonal(value, torch.randn(value.shape, generator=generator)) for name, value in delta.items()}


def orthogonal(g: Tensor, z: Tensor) -> Tensor:
    """The part of z that is orthogonal to g, as long as g; zero where there is none. Computed in float64."""
    flat, draw = g.cpu().double().flatten(), z.double().flatten()
    square = flat.dot(flat)
    if square == 0:
        return torch.zeros_like(g)
    rest = draw - draw.dot(flat) / square * flat
    rest = rest - rest.dot(flat) / square * flat  # a second pass takes what rounding left
    length = rest.norm()
    if length <= 1e-9 * draw.norm():
        return torch.zeros_like(g)
    scaled: Tensor = rest * (square.sqrt() / length)
    return scaled.view_as(g).to(g)


def probe_loss(client: Client, update: Update, step: Weights) -> float:
    """Mean cross-entropy on the client's images at w0 - step, in float64: a probe step changes the eighth digit."""
    x = client.batch.normalisation.apply(client.batch.images).cpu().double()
    moved = {name: value.cpu().double() - step[name].cpu().double() for name, value in update.w0.items()}
    buffers = {name: value.cpu() for name, value in update.buffers.items()}
    buffers |= {name: value.double() for name, value in buffers.items() if value.is_floating_point()}
    labels = client.batch.labels.cpu()
    with torch.no_grad():
        logits = client.victim.call(moved, buffers, x)
    return float(functional.cross_entropy(logits, labels.double() if labels.is_floating_point() else labels))
