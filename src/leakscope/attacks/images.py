"""How the dummy images are parameterised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from leakscope.attacks.known import Known, Variable, Variables


class Images(Protocol):
    """A map from variables to normalised images."""

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        """What it lets the optimiser move."""

    def decode(self, v: Variables, known: Known) -> Tensor:
        """(N, C, H, W), normalised."""


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """Every pixel is free inside the box that black and white span; starts from clamped normal noise."""

    lr: float = 1.0

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        low, high = known.normalisation.box(known.w0)

        def keep(x: Tensor) -> Tensor:
            return x.copy_(torch.maximum(torch.minimum(x, high), low))

        noise = torch.randn(known.n, *known.shape, generator=generator)
        return {"x": Variable(keep(noise.to(known.w0)), self.lr, project=keep)}

    def decode(self, v: Variables, known: Known) -> Tensor:  # noqa: ARG002
        return v["x"]
