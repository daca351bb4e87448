"""The values that flow through leakscope, in the order in which they do.

private images -> ClientBatch -> (LocalTraining) -> Update -> Observation -> Reconstruction -> Scores
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from leakscope.settings import LabelKnowledge as LabelKnowledge
from leakscope.settings import LocalTraining as LocalTraining

Weights = Mapping[str, Tensor]
"""Named tensors of a model, in the order of `named_parameters()`."""


def stream(seed: int, purpose: str) -> torch.Generator:
    """A random generator of its own for each purpose, so that one more draw here changes nothing there."""
    mixed = seed * 1_000_003 + sum(ord(letter) * 257**place for place, letter in enumerate(purpose))
    return torch.Generator().manual_seed(mixed % (2**63))


@dataclass(frozen=True)
class Normalisation:
    """x_normalised = (x - mean) / std, per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, images: Tensor) -> Tensor:
        """(N, C, H, W) in [0, 1] -> normalised."""
        mean, std = self._channels(images)
        return (images - mean) / std

    def invert(self, x: Tensor) -> Tensor:
        """(N, C, H, W) normalised -> [0, 1] where it is inside the box."""
        mean, std = self._channels(x)
        return x * std + mean

    def box(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised values of black and white, each (1, C, 1, 1)."""
        mean, std = self._channels(like)
        return -mean / std, (1 - mean) / std

    def _channels(self, like: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.tensor(self.mean, dtype=like.dtype, device=like.device).view(1, -1, 1, 1)
        std = torch.tensor(self.std, dtype=like.dtype, device=like.device).view(1, -1, 1, 1)
        return mean, std


@dataclass(frozen=True)
class ClientBatch:
    """The private images of one client. Nothing of this type ever reaches an attack."""

    images: Tensor
    """(N, C, H, W) float in [0, 1]."""
    labels: Tensor
    """(N,) int64, or (N, classes) float for soft targets."""
    classes: int
    normalisation: Normalisation
    dataset: str
    writer: str | None = None

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        writer = f", writer={self.writer!r}" if self.writer else ""
        return f"ClientBatch({self.dataset}, {tuple(self.images.shape)}, classes={self.classes}{writer})"


@dataclass(frozen=True)
class Update:
    """What leaves the client: delta = w0 - wT, positive along the gradient (eq. 5)."""

    w0: Weights
    delta: Weights
    training: LocalTraining
    n: int
    buffers: Weights = field(default_factory=dict)
    """Non-trainable tensors of the model (batch-norm statistics and counters) before training."""
    trajectory: tuple[Weights, ...] = ()
    """The states w_0 .. w_T, where recording was asked for. Never leaves the client."""
    notes: Mapping[str, object] = field(default_factory=dict)
    """What a defense wants said in the result, e.g. the accounted epsilon."""
    buffers_after: Weights = field(default_factory=dict)
    """The same tensors after training, which the client sends along: what the next round starts from."""

    @property
    def gradient(self) -> dict[str, Tensor]:
        """The accumulated gradient G = delta / lr."""
        return {name: value / self.training.lr for name, value in self.delta.items()}

    def norm(self) -> float:
        return math.sqrt(sum(float(value.cpu().double().square().sum()) for value in self.delta.values()))

    def __repr__(self) -> str:
        size = sum(value.numel() for value in self.delta.values())
        return f"Update({size:,} weights, n={self.n}, norm={self.norm():.4g}, {self.training})"


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What the attacker is granted beyond the update itself; printed with every result."""

    labels: LabelKnowledge = "known"
    normalisation: bool = True
    auxiliary: bool = False


@dataclass(frozen=True)
class Reconstruction:
    """What an attack gives back, with images in [0, 1]."""

    images: Tensor
    """(N, C, H, W): the last iterate."""
    best: Tensor
    """(N, C, H, W): the iterate with the lowest objective."""
    labels: Tensor
    """The labels that belong to `images`: (N,) int64."""
    l_sim: float
    """1 - cos of the last iterate, calibration applied, priors left out."""
    l_sim_raw: float
    """The same without calibration."""
    l_sim_best: float
    history: tuple[Mapping[str, float], ...]
    iterations: int
    seconds: float
    status: Literal["finished", "stopped early", "interrupted"] = "finished"
    objective: float = math.inf
    notes: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Reconstruction({tuple(self.images.shape)}, l_sim={self.l_sim:.4g}, "
            f"{self.iterations} iterations, {self.seconds:.1f} s, {self.status})"
        )


@dataclass(frozen=True)
class Scores:
    """How close a reconstruction came: means over images, and the values per image in the originals' order."""

    metrics: Mapping[str, float | None]
    baseline: Mapping[str, float | None]
    """The same metrics for an attacker who knows nothing: the better of a constant image and the data set's mean."""
    per_image: Mapping[str, tuple[float | None, ...]]
    assignment: tuple[int, ...]
    """assignment[i] = index of the reconstruction that belongs to original i."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are null, with the reason."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
