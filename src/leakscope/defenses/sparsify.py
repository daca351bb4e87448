"""Sparsification: only the largest entries leave the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from leakscope.client.training import Client
from leakscope.defenses.base import SCOPES, SHARE, Checked, changed, share
from leakscope.types import Update, Weights


@dataclass(frozen=True, kw_only=True)
class Sparsify(Checked):
    """Top-k sparsification: zero the floor(rate * size) smallest magnitudes.

    Acts on the update, whose ranking is that of the gradient; ranked per tensor, or over all tensors
    (`scope=global`). `drop` does it in every local step, as Aji and Heafield (2017) did.
    """

    rate: Annotated[float, SHARE]
    scope: Literal["tensor", "global"] = "tensor"

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Keep the largest 1 - rate of the entries."""
        return changed(update, sparsified(update.delta, self.rate, self.scope))

    def imitate(self, dummy: Weights, seen: Weights) -> dict[str, Tensor]:
        """The largest entries of the dummy update; the choice of entries has no gradient."""
        return sparsified(dummy, self.rate, self.scope)


def sparsified(values: Weights, rate: float, scope: Literal["tensor", "global"]) -> dict[str, Tensor]:
    """The tensors with the floor(rate * size) smallest magnitudes set to zero."""

    def keep(magnitude: Tensor) -> Tensor:
        kept = torch.ones_like(magnitude, dtype=torch.bool)
        kept[magnitude.argsort(stable=True)[: share(rate, magnitude.numel())]] = False
        return kept

    return SCOPES[scope](values, keep)
