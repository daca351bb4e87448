"""A diffusion model as a denoiser, in the convention of DDPM (Ho et al. 2020), for images in [-1, 1].

    x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps,    t = 0 .. T - 1,  and abar_{-1} = 1: the image itself

The network predicts eps from x_t and t, so that x_0 is about (x_t - sqrt(1 - abar_t) eps_theta) / sqrt(abar_t).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn

CLEAN = -1
"""The time of an image without noise."""
AT_ONCE = 64
"""Images that go through the network at a time."""


@dataclass(frozen=True, eq=False)
class Denoiser:
    """A network with its noise schedule. Nothing is ever differentiated through the network."""

    network: nn.Module
    """(x (N, C, S, S), t (N,)) -> an object whose `sample` is eps_theta (N, C, S, S)."""
    signal: Tensor
    """(T + 1,): 1, abar_0, ..., abar_{T-1}."""
    channels: int
    side: int

    @property
    def times(self) -> int:
        """T."""
        return len(self.signal) - 1

    def to(self, like: Tensor) -> Denoiser:
        """The same on the device of `like`, in its precision."""
        network = nn.Module.to(self.network, like.device, like.dtype)  # diffusers' own warns of casts
        return replace(self, network=network, signal=self.signal.to(like))

    def noised(self, x: Tensor, t: int, noise: Tensor) -> Tensor:
        """x_t for x = x_0 and noise = eps, all (N, C, S, S)."""
        return self.signal[t + 1].sqrt() * x + (1 - self.signal[t + 1]).sqrt() * noise

    def predict(self, x: Tensor, t: int) -> Tensor:
        """eps_theta (N, C, S, S) of x_t; zero where there is no noise."""
        if t == CLEAN:
            return torch.zeros_like(x)
        with torch.no_grad():
            pieces = [
                self.network(part, part.new_full((len(part),), t, dtype=torch.long)) for part in torch.split(x, AT_ONCE)
            ]
        return torch.cat([piece.sample for piece in pieces])

    def clean(self, x: Tensor, t: int) -> Tensor:
        """x_0 (N, C, S, S) as far as x_t tells: differentiable in x_t, with eps_theta taken as a constant."""
        return (x - (1 - self.signal[t + 1]).sqrt() * self.predict(x, t)) / self.signal[t + 1].sqrt()

    def step(self, x: Tensor, t: int, to: int) -> Tensor:
        """x_to from x_t by DDIM (Song et al. 2021) without fresh noise; x_0 is kept in [-1, 1]."""
        x0 = self.clean(x, t).clamp(-1, 1)
        if t == CLEAN:
            return x0
        noise = (x - self.signal[t + 1].sqrt() * x0) / (1 - self.signal[t + 1]).sqrt()
        return self.noised(x0, to, noise)


def sample(
    denoiser: Denoiser, count: int, *, generator: torch.Generator, steps: int = 50, tell: Callable[[int], object]
) -> Tensor:
    """(count, C, S, S) in [-1, 1]: new images from noise, in `steps` steps of DDIM."""
    size = (count, denoiser.channels, denoiser.side, denoiser.side)
    x = torch.randn(size, generator=generator).to(denoiser.signal)
    times = [*torch.linspace(denoiser.times - 1, 0, steps).round().int().tolist(), CLEAN]
    for place, (t, to) in enumerate(pairwise(times)):
        x = denoiser.step(x, t, to)
        tell(place + 1)
    return x
