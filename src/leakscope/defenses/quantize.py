"""Quantisation: every entry leaves the client with a few bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from leakscope.client.training import Client
from leakscope.defenses.base import Checked, changed
from leakscope.options import Range
from leakscope.types import Update, Weights, stream

FULL = 32
"""Bits from which on nothing is rounded."""


@dataclass(frozen=True, kw_only=True)
class Quantize(Checked):
    """s * round(u / s) per tensor, 2^bits - 1 levels from -max|u| to max|u| (QSGD, Alistarh et al. 2017).

    Acts on the update and is the same for the gradient, since the step s follows the largest entry.
    Stochastic rounding is unbiased. One bit is signSGD (Bernstein et al. 2018): sign(u) * mean|u|. 32 bits
    change nothing.
    """

    bits: Annotated[int, Range("[1, 32]", 8)]
    rounding: Literal["stochastic", "nearest"] = "stochastic"

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Round every tensor to its own levels."""
        generator = stream(seed, "quantize defense")
        return changed(update, {name: self._round(value, generator) for name, value in update.delta.items()})

    def imitate(self, dummy: Weights, seen: Weights) -> dict[str, Tensor]:
        """Rounded to the nearest level in the forward pass, untouched in the backward pass."""
        nearest, unused = replace(self, rounding="nearest"), stream(0, "quantize defense")
        rounded = {name: nearest._round(value.detach(), unused) for name, value in dummy.items()}
        return {name: value + (rounded[name] - value.detach()) for name, value in dummy.items()}

    def _round(self, value: Tensor, generator: torch.Generator) -> Tensor:
        if self.bits >= FULL:
            return value
        if self.bits == 1:
            return value.sign() * value.abs().mean()
        exact, levels = value.cpu().double(), 2 ** (self.bits - 1) - 1  # some devices have no float64
        step = exact.abs().max() / levels
        if step == 0:
            return value
        uniform = torch.rand(value.shape, generator=generator, dtype=torch.float64)
        shift = uniform if self.rounding == "stochastic" else 0.5
        rounded: Tensor = torch.floor(exact / step + shift).clamp(-levels, levels) * step
        return rounded.to(value)
