"""Gaussian noise on the finished update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from leakscope.client.training import Client
from leakscope.defenses.base import FINITE, Checked, Unit, changed, noise, unit
from leakscope.types import Update, stream


@dataclass(frozen=True, kw_only=True)
class Gaussian(Checked):
    """G + N(0, std²) in every coordinate (Geyer et al. 2017).

    Acts on the accumulated gradient G = (w0 - wT) / lr by default; `on=update` adds N(0, std²) to w0 - wT
    itself.
    """

    std: Annotated[float, FINITE]
    on: Unit = "gradient"

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """The same noise for the same seed, on every device."""
        generator = stream(seed, "gaussian defense")
        std = self.std * unit(self.on, update.training)
        return changed(update, {name: value + noise(value, std, generator) for name, value in update.delta.items()})
