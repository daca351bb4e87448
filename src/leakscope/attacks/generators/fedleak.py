"""The untrained convolutional generator of FedLeak (Fan et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from leakscope.attacks.generators.base import BatchNorm, Generated, bare, side_of
from leakscope.attacks.known import Known

LATENT = 128
NARROWER = {64: 2, 128: 4, 256: 4}
"""By how much the blocks of larger images are narrower."""


class Upscaler(nn.Module):
    """z (N, 128) -> 4x4 -> two 3x3 convolutions at 4, 8, 16, ... pixels -> 1x1 convolution -> sigmoid.

    The authors normalise the convolutions' weights spectrally. Batch norm behind each makes the output independent of
    their scale, and signs or Adam make the step so: we leave it out, and their biases for the same reason.
    """

    def __init__(self, side: int, channels: int, width: int) -> None:
        super().__init__()
        first = nn.ConvTranspose2d(LATENT, width, 4, bias=False)
        layers: list[nn.Module] = [first, BatchNorm(width), nn.LeakyReLU(0.1)]
        inputs, size = width, 4
        while size <= side:
            outputs = max(1, width // NARROWER.get(size, 1))
            layers += [nn.Upsample(scale_factor=2)] if size > 4 else []
            for there in (inputs, outputs):
                layers += [nn.Conv2d(there, outputs, 3, padding=1, bias=False), BatchNorm(outputs), nn.LeakyReLU(0.1)]
            inputs, size = outputs, 2 * size
        self.layers = nn.Sequential(*layers, nn.Conv2d(inputs, channels, 1), nn.Sigmoid())

    def forward(self, z: Tensor) -> Tensor:
        """(N, 128) -> (N, channels, side, side) in [0, 1]."""
        images: Tensor = self.layers(z[:, :, None, None])
        return images


@dataclass(frozen=True, kw_only=True)
class UntrainedGenerator(Generated):
    """FedLeak's: 256 channels, one latent vector per image."""

    full: ClassVar[int] = 256
    lr: float = 1e-2

    def latent(self, known: Known) -> tuple[int, ...]:
        return known.n, LATENT

    def start(self, known: Known, generator: torch.Generator) -> int:  # noqa: ARG002
        return int(torch.randint(2**31, (), generator=generator))

    def network(self, known: Known) -> nn.Module:
        return Upscaler(*self._sizes(known))

    def skeleton(self, known: Known) -> nn.Module:
        return bare(Upscaler, *self._sizes(known))

    def _sizes(self, known: Known) -> tuple[int, int, int]:
        return side_of(known.shape, 4), known.shape[0], self.width or self.full
