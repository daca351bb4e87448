"""Clipping: the whole update is scaled down to a given length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from leakscope.client.training import Client
from leakscope.defenses.base import POSITIVE, Checked, Unit, changed, unit
from leakscope.types import Update


@dataclass(frozen=True, kw_only=True)
class Clip(Checked):
    """u * min(1, bound / ||u||) with the L2 norm over all tensors (Wei et al. 2021).

    Acts on the update by default; `on=gradient` bounds the accumulated gradient u / lr. An update inside the
    bound is left untouched to the last bit.
    """

    bound: Annotated[float, POSITIVE]
    on: Unit = "update"

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Scale to the bound where the norm exceeds it, and note whether it did."""
        scale = unit(self.on, update.training)
        norm, bound = update.norm(), self.bound * scale
        binds = norm > bound
        delta = {name: value * (bound / norm) for name, value in update.delta.items()} if binds else update.delta
        return changed(update, delta, {"clip": {"norm": norm / scale, "binds": binds}})
