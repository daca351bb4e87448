"""How the dummy images are parameterised."""

from __future__ import annotations

from dataclasses import dataclass, field
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
class FromImages:
    """A parameterisation that may begin at images that another attack has found."""

    start: Tensor | None = field(default=None, repr=False)
    """(N, C, H, W), normalised; None: noise."""


@dataclass(frozen=True, kw_only=True)
class Pixels(FromImages):
    """Every pixel is free inside the box that black and white span; starts from clamped normal noise."""

    lr: float = 1.0
    box: bool = True
    held: Tensor | None = field(default=None, repr=False)
    """(N,) bool: images of the start that stay as they are."""

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        low, high = known.normalisation.box(known.w0)

        noise = torch.randn(known.n, *known.shape, generator=generator).to(known.w0)
        start = (noise if self.start is None else self.start).clone()

        def keep(x: Tensor) -> Tensor:
            if self.held is not None:
                x[self.held] = start[self.held]
            return x.copy_(torch.maximum(torch.minimum(x, high), low)) if self.box else x

        return {"x": Variable(keep(start), self.lr, project=keep if self.box or self.held is not None else None)}

    def decode(self, v: Variables, known: Known) -> Tensor:  # noqa: ARG002
        return v["x"]
