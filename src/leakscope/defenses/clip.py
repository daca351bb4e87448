"""Clipping: the whole update is scaled down to a given length."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.client.training import Client
from leakscope.defenses.base import PostTraining, Unit, changed, outside, unit
from leakscope.errors import refuse
from leakscope.types import Update


@dataclass(frozen=True, kw_only=True)
class Clip(PostTraining):
    """u * min(1, bound / ||u||) with the L2 norm over all tensors (Wei et al. 2021).

    Acts on the update by default; `on=gradient` bounds the accumulated gradient u / lr. An update inside the
    bound is left untouched to the last bit.
    """

    bound: float
    on: Unit = "update"

    def __post_init__(self) -> None:
        refuse(outside("clip", "bound", self.bound, self.bound > 0, "a positive number", 4))

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Scale to the bound where the norm exceeds it, and note whether it did."""
        scale = unit(self.on, update.training)
        norm, bound = update.norm(), self.bound * scale
        binds = norm > bound
        notes = {"clip": {"norm": norm / scale, "binds": binds}}
        factor = bound / norm if binds else 1.0
        delta = {name: value * factor for name, value in update.delta.items()} if binds else update.delta
        return changed(update, delta, notes)
