"""The images whose features are given: Adam on |f(x) - z|^2 / |z|^2 with a total variation that fades."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.attacks.composition import State
from leakscope.attacks.inversion.front import Front

CHROMA = 5.0
"""How much more a change of colour costs than one of brightness."""
STAGES = 6
STRONGEST, WEAKEST = 0.3, 1e-3
"""Weights of the total variation in the first and the last stage; in between they fall by the same factor."""
RATE, BETAS = 0.03, (0.9, 0.99)
"""Of Adam; within a stage the rate falls to a tenth. Images are in [0, 1]."""
SMOOTH = 1e-6


@dataclass
class Preimages:
    """N images on their way to N feature vectors; each has an objective of its own."""

    front: Front
    wanted: Tensor
    """z (N, F)."""
    images: Tensor
    """(N, C, H, W) in [0, 1]."""
    steps: int
    chunk: int | None = None
    """How many images go through the net at a time."""
    done: int = 0
    optimiser: torch.optim.Adam = field(init=False)

    def __post_init__(self) -> None:
        self.images = self.images.detach().clone()
        self.optimiser = torch.optim.Adam([self.images], lr=RATE, betas=BETAS)

    def step(self) -> None:
        """One step of Adam on sum_i |f(x_i) - z_i|^2 / |z_i|^2 + weight TV(x_i), then back into the box."""
        within, stage = math.modf(STAGES * self.done / self.steps)
        weight = STRONGEST * (WEAKEST / STRONGEST) ** (stage / (STAGES - 1))
        self.optimiser.param_groups[0]["lr"] = RATE * (1 - 0.9 * within)
        self.images.grad = torch.cat([self._slope(x, z, weight) for x, z in self._pieces()])
        self.optimiser.step()
        self.images.clamp_(0, 1)
        self.done += 1

    def misfit(self) -> Tensor:
        """(N,): how far each image is from its features."""
        with torch.no_grad():
            return torch.cat([misfit(self.front(x), z) for x, z in self._pieces()])

    def _pieces(self) -> list[tuple[Tensor, Tensor]]:
        size = self.chunk or len(self.images)
        return list(zip(torch.split(self.images, size), torch.split(self.wanted, size), strict=True))

    def _slope(self, x: Tensor, z: Tensor, weight: float) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = (misfit(self.front(x), z) + weight * colour_variation(x)).sum()
            (slope,) = torch.autograd.grad(value, x)
        return slope

    def pack(self) -> State:
        return {
            "images": self.images.clone(),
            "optimiser": copy.deepcopy(self.optimiser.state_dict()),
            "done": self.done,
        }

    def unpack(self, state: State) -> None:
        self.images.copy_(state["images"])
        self.optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))
        self.done = state["done"]


def misfit(found: Tensor, wanted: Tensor) -> Tensor:
    """(N, F), (N, F) -> (N,): |f(x) - z|^2 / |z|^2."""
    return (found - wanted).square().sum(1) / wanted.square().sum(1)


def opponent(images: Tensor) -> Tensor:
    """(N, 3, H, W) -> brightness, red against green, blue against yellow, the last two enlarged; others as they are."""
    if images.shape[1] != 3:
        return images
    red, green, blue = images.unbind(1)
    brightness = (red + green + blue) / 3**0.5
    return torch.stack([brightness, CHROMA * (red - green) / 2**0.5, CHROMA * (2 * blue - red - green) / 6**0.5], dim=1)


def colour_variation(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N,): mean length of the gradient in opponent colours, isotropic across places and colours."""
    seen = opponent(images)
    down, across = torch.diff(seen, dim=2)[..., :, :-1], torch.diff(seen, dim=3)[..., :-1, :]
    return ((down.square() + across.square()).sum(1) + SMOOTH).sqrt().flatten(1).mean(1)
