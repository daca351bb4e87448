"""Gradient dropping: in every local step only the largest entries move the model, the others wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from leakscope.client.training import Client, Gradients, batch_gradient
from leakscope.defenses.base import SHARE, Checked, changed
from leakscope.defenses.sparsify import sparsified
from leakscope.types import Update, Weights
from leakscope.victims import Victim


@dataclass(frozen=True, kw_only=True)
class Drop(Checked):
    """Gradient dropping (Aji and Heafield 2017): each step takes the largest 1 - rate of gradient plus residual.

    Acts inside training. What a step drops is added to the next step's gradient (`residual=off` forgets it), so that an
    update of many steps hides far fewer entries than `rate` says. Ranked per tensor, or over all tensors
    (`scope=global`).
    """

    rate: Annotated[float, SHARE]
    scope: Literal["tensor", "global"] = "tensor"
    residual: bool = True

    def gradients(self, client: Client, *, seed: int) -> Gradients:
        """The gradient of one step without its smallest entries; the residual continues from step to step."""
        waiting: dict[str, Tensor] = {}

        def dropped(victim: Victim, weights: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            found = batch_gradient(victim, weights, buffers, x, y)
            whole = {name: value + waiting[name] if waiting else value for name, value in found.items()}
            sent = sparsified(whole, self.rate, self.scope)
            if self.residual:
                waiting.update({name: value - sent[name] for name, value in whole.items()})
            return sent

        return dropped

    def batches(self, client: Client, *, seed: int) -> Iterator[Tensor] | None:
        """The client's own."""
        return None

    def annotate(self, update: Update, client: Client) -> Update:
        """Which share of the entries never moved."""
        hidden = sum(int((value == 0).sum()) for value in update.delta.values())
        count = sum(value.numel() for value in update.delta.values())
        return changed(update, update.delta, {"drop": {"never_moved": hidden / count}})
