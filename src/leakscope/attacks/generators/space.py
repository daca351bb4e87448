"""The search space of GI-NAS (Yu et al. 2025): encoder and decoder with switchable skips and upsampling operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from leakscope.attacks.generators.base import BatchNorm

LEVELS = 5
LATENT = 3
"""Channels of the random input."""


@dataclass(frozen=True)
class Operator:
    """How a feature map is enlarged twofold: a resize with a convolution behind it or, for `shuffled`, before it."""

    resize: str
    conv: str
    kernel: int
    activation: str

    def __str__(self) -> str:
        conv = self.conv if self.conv == "identity" else f"{self.conv} {self.kernel}x{self.kernel}"
        return f"{self.resize}, {conv}, {self.activation}"


class SplitSum(nn.Module):
    """Split the channels in four, sum the quarters, convolve."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs // 4, outputs, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H, W)."""
        quarters: Tensor = self.conv(torch.stack(x.chunk(4, dim=1)).sum(0))
        return quarters


def separable(inputs: int, outputs: int, kernel: int) -> nn.Module:
    """Depthwise, then pointwise."""
    depth = nn.Conv2d(inputs, inputs, kernel, padding=kernel // 2, groups=inputs, bias=False)
    return nn.Sequential(depth, nn.Conv2d(inputs, outputs, 1, bias=False))


CONVOLUTIONS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "plain": lambda i, o, k: nn.Conv2d(i, o, k, padding=k // 2, bias=False),
    "transposed": lambda i, o, k: nn.ConvTranspose2d(i, o, k, padding=k // 2),
    "split-sum": SplitSum,
    "separable": separable,
    "grouped": lambda i, o, k: nn.Conv2d(i, o, k, padding=k // 2, groups=o, bias=False),
    "identity": lambda *_: nn.Identity(),
}
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "linear": nn.Identity,
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.2),
}
RESIZES: dict[str, Callable[[], nn.Module]] = {
    "bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    "bicubic": lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
    "nearest": lambda: nn.Upsample(scale_factor=2, mode="nearest"),
    "shuffle": lambda: nn.PixelShuffle(2),
    "shuffled": lambda: nn.PixelShuffle(2),
}
CHANGES = ("plain", "transposed", "split-sum", "separable")
"""Convolutions that can change the number of channels, as pixel shuffling needs; the others would not fit."""


def _operators() -> tuple[Operator, ...]:
    found = []
    for resize in RESIZES:
        fit = CHANGES if resize.startswith("shuffle") else tuple(CONVOLUTIONS)
        for conv in fit:
            kernels = (1,) if conv == "identity" else (1, 3, 5, 7)
            found += [Operator(resize, conv, kernel, act) for kernel, act in product(kernels, ACTIVATIONS)]
    return tuple(found)


OPERATORS = _operators()


def enlarge(operator: Operator, width: int) -> nn.Module:
    """(N, width, H, W) -> (N, width, 2H, 2W)."""
    inputs, outputs = {"shuffle": (width // 4, width), "shuffled": (width, 4 * width)}.get(
        operator.resize, (width, width)
    )
    resize = RESIZES[operator.resize]()
    convolution = CONVOLUTIONS[operator.conv](inputs, outputs, operator.kernel)
    conv = nn.Sequential(convolution, ACTIVATIONS[operator.activation]())
    return nn.Sequential(conv, resize) if operator.resize == "shuffled" else nn.Sequential(resize, conv)


def convolve(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, leaky ReLU. A bias would be cancelled by the batch norm."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, BatchNorm(outputs), nn.LeakyReLU(0.2))


class SearchedNet(nn.Module):
    """z (N, 3, S, S) -> images (N, channels, S, S) in [0, 1], with S a multiple of 32.

    Level r of the decoder (1 is full size) adds the sources s with skips[5 (r - 1) + s]: s = 0 is the latent, s = 1..4
    the encoder's outputs. Sources of another size go through blocks that all of them share, one per pair of levels.
    """

    def __init__(self, skips: tuple[bool, ...], operator: Operator, channels: int, width: int) -> None:
        super().__init__()
        self.sources = [[s for s in range(LEVELS) if skips[LEVELS * r + s]] for r in range(LEVELS)]
        sizes = [LATENT, *[width] * LEVELS]
        self.encoder = nn.ModuleList(
            nn.Sequential(convolve(i, width, 3, 2), convolve(width, width, 3)) for i in sizes[:-1]
        )
        self.up = nn.ModuleList(enlarge(operator, width) for _ in range(LEVELS))
        self.decoder = nn.ModuleList(
            nn.Sequential(BatchNorm(width), *(convolve(width, width, kernel) for kernel in (3, 3, 1)))
            for _ in range(LEVELS)
        )
        used = [(r, s) for r, row in enumerate(self.sources) for s in row]
        self.same = nn.ModuleDict({str(r): convolve(sizes[s], width, 1) for r, s in used if s == r})
        down = {level for r, s in used for level in range(s, r)}
        self.shrink = nn.ModuleDict({str(level): convolve(sizes[level], width, 3, 2) for level in sorted(down)})
        grow = {level for r, s in used for level in range(r, s)}
        self.grow = nn.ModuleDict({str(level): enlarge(operator, width) for level in sorted(grow)})
        self.out = nn.Sequential(nn.Conv2d(width, channels, 1), nn.Sigmoid())

    def forward(self, z: Tensor) -> Tensor:
        """(N, 3, S, S) -> (N, channels, S, S)."""
        found = [z]
        for block in self.encoder:
            found.append(block(found[-1]))
        h = found[LEVELS]
        for r in reversed(range(LEVELS)):
            h = self.up[r](h)
            for s in self.sources[r]:
                h = h + self._fit(found[s], s, r)
            h = self.decoder[r](h)
        images: Tensor = self.out(h)
        return images

    def _fit(self, x: Tensor, s: int, r: int) -> Tensor:
        """The source s at the size of level r; both count from 0 at full size."""
        if s == r:
            return self.same[str(r)](x)  # type: ignore[no-any-return]
        blocks = [self.shrink[str(k)] for k in range(s, r)] or [self.grow[str(k)] for k in reversed(range(r, s))]
        for block in blocks:
            x = block(x)
        return x
