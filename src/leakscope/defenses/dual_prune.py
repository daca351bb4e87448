"""Dual gradient pruning: neither the largest nor the smallest entries leave the client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from leakscope.client.training import Client
from leakscope.defenses.base import SCOPES, SHARE, Checked, changed, share
from leakscope.errors import Problem
from leakscope.types import Update, Weights


@dataclass(frozen=True, kw_only=True)
class DualPrune(Checked):
    """Zero the `largest` and the `smallest` share of the magnitudes (dual gradient pruning, AAAI 2024).

    Acts on the update, ranked per tensor or over all tensors (`scope=global`). The paper carries what was
    pruned over to the next round; an audit looks at one round, so nothing is carried.
    """

    largest: Annotated[float, SHARE] = 0.05
    smallest: Annotated[float, SHARE] = 0.75
    scope: Literal["tensor", "global"] = "tensor"

    def together(self) -> Iterator[Problem]:
        """They must leave something to send."""
        if self.largest + self.smallest >= 1:
            both = f"largest={self.largest:g} and smallest={self.smallest:g}"
            yield Problem(f"dual-prune: {both} leave nothing", fix="let them add up to less than 1")

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Keep the middle of the ranking."""
        return changed(update, SCOPES[self.scope](update.delta, self._keep))

    def imitate(self, dummy: Weights, seen: Weights) -> dict[str, Tensor]:
        """The middle of the dummy update's own ranking; the choice of entries has no gradient."""
        return SCOPES[self.scope](dummy, self._keep)

    def _keep(self, magnitude: Tensor) -> Tensor:
        size = magnitude.numel()
        order = magnitude.argsort(stable=True)
        kept = torch.zeros_like(magnitude, dtype=torch.bool)
        kept[order[share(self.smallest, size) : size - share(self.largest, size)]] = True
        return kept
