"""LPIPS v0.1, learned perceptual distance (Zhang, Isola, Efros, Shechtman and Wang, CVPR 2018)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.metrics.lpips_weights import SOURCES, locate
from leakscope.metrics.metric import Case, Column, Metric
from leakscope.metrics.pairs import UnavailableError, check_pair

Backbone = Literal["vgg", "alex"]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, what the networks were trained with
UNREADABLE = (
    OSError,
    EOFError,
    pickle.UnpicklingError,
    RuntimeError,
    LookupError,
    AttributeError,
    ValueError,
    TypeError,
)
"""What torch's restricted unpickler raises on files that are damaged or something else altogether."""
PIXELS = 1 << 16  # of a slice: bounds the memory of the feature maps to some 150 MB


@dataclass(frozen=True)
class Stage:
    """Pooling over `pool` pixels (0: none), then convolutions with ReLU: gives one of five feature maps."""

    pool: int
    convolutions: tuple[int, ...]
    stride: int = 1
    padding: int = 1


STAGES: dict[Backbone, tuple[Stage, ...]] = {
    "vgg": (
        Stage(0, (0, 2)),
        Stage(2, (5, 7)),
        Stage(2, (10, 12, 14)),
        Stage(2, (17, 19, 21)),
        Stage(2, (24, 26, 28)),
    ),
    "alex": (
        Stage(0, (0,), stride=4, padding=2),
        Stage(3, (3,), padding=2),
        Stage(3, (6,)),
        Stage(0, (8,)),
        Stage(0, (10,)),
    ),
}
LEAST_SIDE: dict[Backbone, int] = {"vgg": 64, "alex": 64}
"""Shorter sides are enlarged to this: below it the later feature maps shrink to nothing."""


@dataclass(frozen=True, eq=False)
class Network:
    """A loaded backbone with the learned channel weights of its five feature maps."""

    backbone: Backbone
    trunk: dict[str, Tensor]
    heads: tuple[Tensor, ...]

    def features(self, images: Tensor) -> list[Tensor]:
        """(N, 3, H, W) in [0, 1] -> five maps (N, C, h, w), each of unit length across its channels."""
        x = (images - images.new_tensor(MEAN).view(1, 3, 1, 1)) / images.new_tensor(STD).view(1, 3, 1, 1)
        maps = []
        for stage in STAGES[self.backbone]:
            x = functional.max_pool2d(x, stage.pool, 2) if stage.pool else x
            for index in stage.convolutions:
                weight, bias = self.trunk[f"features.{index}.weight"], self.trunk[f"features.{index}.bias"]
                x = functional.conv2d(x, weight, bias, stage.stride, stage.padding).relu_()
            maps.append(x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10))
        return maps

    def distance(self, a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
        """Features of N and of N (or 1) images -> (N,)."""
        layers = ((p - q).square().mul(head).sum(1).mean((1, 2)) for p, q, head in zip(a, b, self.heads, strict=True))
        return torch.stack(list(layers)).sum(0)


def lpips(
    x: Tensor, y: Tensor, *, backbone: Backbone = "vgg", weights: Path | None = None, download: bool = True
) -> Tensor:
    """Perceptual distance of each pair of images in [0, 1]: two (N, C, H, W) -> (N,), 0 = the same.

    Grey images are repeated to three channels. Images with a shorter side below 64 are enlarged to it, bilinearly
    with `align_corners=False`.
    Raises `UnavailableError` with the reason where the weights cannot be had.
    """
    check_pair(x, y)
    return lpips_of_each(x, [y], backbone=backbone, weights=weights, download=download)[0]


@torch.no_grad()
def lpips_of_each(
    x: Tensor,
    others: Sequence[Tensor],
    *,
    backbone: Backbone = "vgg",
    weights: Path | None = None,
    download: bool = True,
) -> list[Tensor]:
    """LPIPS of (N, C, H, W) to several batches of N images, or of one image for all; x is looked at once."""
    if x.shape[1] not in (1, 3):
        raise UnavailableError(f"LPIPS is defined for grey and colour images, these have {x.shape[1]} channels")
    network = load_network(backbone, weights=weights, device=x.device, download=download)
    single = {i: network.features(_ready(y, backbone)) for i, y in enumerate(others) if len(y) == 1}
    found: list[list[Tensor]] = [[] for _ in others]
    height, width = _ready(x[:1], backbone).shape[-2:]
    size = max(1, PIXELS // (height * width))
    for start in range(0, len(x), size):
        features = network.features(_ready(x[start : start + size], backbone))
        for i, y in enumerate(others):
            there = single[i] if i in single else network.features(_ready(y[start : start + size], backbone))
            found[i].append(network.distance(features, there))
    return [torch.cat(pieces).to(x.dtype) for pieces in found]


def _ready(images: Tensor, backbone: Backbone) -> Tensor:
    """Three channels, float32, no side too short, in the memory order that convolutions like best."""
    images = images.float().expand(-1, 3, -1, -1)
    shortest, least = min(images.shape[-2:]), LEAST_SIDE[backbone]
    if shortest < least:
        size = [round(side * least / shortest) for side in images.shape[-2:]]
        images = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return images.contiguous(memory_format=torch.channels_last)


def load_network(backbone: Backbone, *, weights: Path | None, device: torch.device, download: bool = True) -> Network:
    """From the weights folder, LEAKSCOPE_WEIGHTS, torch's cache or the download address, in this order."""
    trunk, heads = (locate(source, weights, download=download) for source in SOURCES[backbone])
    return _read_network(backbone, trunk, heads, str(device))


@lru_cache(maxsize=4)
def _read_network(backbone: Backbone, trunk_file: Path, heads_file: Path, device: str) -> Network:
    trunk, heads = _read(trunk_file, device), _read(heads_file, device)
    # the authors' files say lin0.model.1.weight, others lin0.weight
    lines = {name.partition(".")[0]: value for name, value in heads.items()}
    try:
        network = Network(backbone, trunk, tuple(lines[f"lin{i}"] for i in range(5)))
        probe = network.features(torch.zeros(1, 3, 64, 64, device=device))
        network.distance(probe, probe)
    except (KeyError, RuntimeError) as error:  # a tensor is absent or has another shape
        files = f"{trunk_file} and {heads_file.name}"
        raise UnavailableError(f"{files} are no LPIPS weights for {backbone}: {error}") from error
    return network


def _read(file: Path, device: str) -> dict[str, Tensor]:
    """The convolutions or heads of a file; torchvision's own files carry a classifier too, which is dropped."""
    try:
        tensors = torch.load(file, map_location=device, weights_only=True)
        wanted = {name: value for name, value in tensors.items() if name.startswith(("features.", "lin"))}
        return {name: value.float() for name, value in wanted.items()}
    except UNREADABLE as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise UnavailableError(f"{file} cannot be read as LPIPS weights: {first}") from error


def _measure(backbone: Backbone) -> Callable[[Case], Column]:
    return lambda case: case.compared(
        partial(lpips_of_each, backbone=backbone, weights=case.weights, download=case.download)
    )


LPIPS = Metric(
    name="lpips",
    label="LPIPS",
    description="learned perceptual distance v0.1, VGG16, sides below 64 enlarged to 64",
    meaning="Distance as a trained network perceives it.",
    higher_is_better=False,
    measure=_measure("vgg"),
    needs="the originals and LPIPS weights",
)
LPIPS_ALEX = replace(
    LPIPS,
    name="lpips_alex",
    label="LPIPS (AlexNet)",
    description="learned perceptual distance v0.1, AlexNet, sides below 64 enlarged to 64",
    meaning="Distance as another trained network perceives it.",
    measure=_measure("alex"),
    tables=("results",),
)
