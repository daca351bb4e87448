"""What all untrained generators share: flat weights, batch norm without memory, images of any size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known, Variable, Variables


class BatchNorm(nn.BatchNorm2d):
    """Batch statistics always and no running ones, so that a forward pass changes nothing; takes a single pixel too."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> the same."""
        return torch.batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.eps, False)


@dataclass(frozen=True, kw_only=True)
class Generated(ABC):
    """x = normalise(crop(G_theta(z))): theta is one vector, z is drawn once and has the rate zero."""

    full: ClassVar[int]
    """Channels of the published network."""
    lr: float
    width: int | None = None
    """Channels; None: the published number."""

    @abstractmethod
    def network(self, known: Known) -> nn.Module:
        """An instance with fresh weights from torch's current random state."""

    @abstractmethod
    def skeleton(self, known: Known) -> nn.Module:
        """The network without weights of its own."""

    @abstractmethod
    def latent(self, known: Known) -> tuple[int, ...]:
        """Shape of z."""

    @abstractmethod
    def start(self, known: Known, generator: torch.Generator) -> int:
        """Seed of the first weights."""

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        z = torch.randn(self.latent(known), generator=generator)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.start(known, generator))
            theta = nn.utils.parameters_to_vector(self.network(known).parameters()).detach()
        return {"theta": Variable(theta.to(known.w0), self.lr), "z": Variable(z.to(known.w0), 0.0)}

    def decode(self, v: Variables, known: Known) -> Tensor:
        net = self.skeleton(known)
        sizes = {name: value.shape for name, value in net.named_parameters()}
        pieces = torch.split(v["theta"], [size.numel() for size in sizes.values()])
        named = {name: piece.view(size) for (name, size), piece in zip(sizes.items(), pieces, strict=True)}
        images = torch.func.functional_call(net, named, (v["z"],))
        return known.normalisation.apply(crop(images, known.shape))


@cache
def bare(make: type[nn.Module], *sizes: object) -> nn.Module:
    """A module on the meta device: all structure and no memory, one for all calls."""
    with torch.device("meta"):
        return make(*sizes)


def crop(images: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """The centre of (N, C, S, S), as high and wide as `shape`."""
    top, left = ((images.shape[axis] - shape[axis - 1]) // 2 for axis in (2, 3))
    return images[..., top : top + shape[1], left : left + shape[2]]


def side_of(shape: tuple[int, int, int], unit: int) -> int:
    """The smallest unit * 2^k, k >= 0, that covers the image."""
    return unit << max(0, math.ceil(math.log2(max(shape[1:]) / unit)))


@dataclass(frozen=True, kw_only=True)
class WidthByDevice:
    """All channels on an accelerator, fewer on a CPU, where the published width takes many seconds per iteration."""

    cpu: int

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        images = attack.images
        assert isinstance(images, Generated)
        on_cpu = known.w0.device.type == "cpu"
        width = images.width or (self.cpu if on_cpu else images.full)
        why = "as asked" if images.width else f"the default on {'a CPU' if on_cpu else 'an accelerator'}"
        note = {"generator": f"{width} of {images.full} channels, {why}"}
        return replace(attack, images=replace(images, width=width)), known, note
