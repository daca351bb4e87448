"""How the dummy update is compared with the observed one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from leakscope.attacks.known import Known, Variable, Variables
from leakscope.defenses import Imitable


class Matching(Protocol):
    """A distance between updates that ignores their length."""

    @property
    def moves(self) -> tuple[str, ...]:
        """The names of its variables."""

    def variables(self, known: Known) -> dict[str, Variable]:
        """What it lets the optimiser move."""

    def calibrate(self, v: Variables, g: Tensor) -> Tensor:
        """The dummy update (p,) as it is compared: a diagonal map, which also pulls slopes back to the update."""

    def distance(self, g: Tensor, known: Known) -> Tensor:
        """L_sim: 0 for parallel updates."""

    def loss(self, g: Tensor, known: Known) -> Tensor:
        """What is minimised: L_sim, unless a method minimises something else."""

    def pull(self, v: Variables, g: Tensor, slope: Tensor) -> dict[str, Tensor]:
        """Gradients of its variables for slope = dL_sim/dg (p,); g may be overwritten."""


def cosine_distance(g: Tensor, target: Tensor) -> Tensor:
    """1 - <g, target> / (|g| |target|) over all coordinates."""
    floor = torch.finfo(g.dtype).tiny
    lengths: Tensor = (g.norm() * target.norm()).clamp_min(floor)
    return 1 - torch.dot(g, target) / lengths


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """1 - cos(g, delta), global over the concatenation of all parameters."""

    moves: ClassVar[tuple[str, ...]] = ()

    def variables(self, known: Known) -> dict[str, Variable]:  # noqa: ARG002
        return {}

    def calibrate(self, v: Variables, g: Tensor) -> Tensor:  # noqa: ARG002
        return g

    def distance(self, g: Tensor, known: Known) -> Tensor:
        return cosine_distance(g, known.delta)

    def loss(self, g: Tensor, known: Known) -> Tensor:
        return self.distance(g, known)

    def pull(self, v: Variables, g: Tensor, slope: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, kw_only=True)
class Calibrated(Cosine):
    """1 - cos(d * g, delta) with a learned d in R^p (eq. 9) held near one by lambda_d |d - 1|^2 (eq. 10).

    The variable `d` holds d - 1, so that no calibration is exactly zero and R_d is its squared norm.
    """

    moves: ClassVar[tuple[str, ...]] = ("d",)
    lambda_d: float = 1e-5
    lr_d: float = 1e-3
    bound: float = 10.0

    def variables(self, known: Known) -> dict[str, Variable]:
        def keep(d: Tensor) -> Tensor:
            return d.clamp_(1 / self.bound - 1, self.bound - 1)

        start = known.delta.new_zeros(()).expand_as(known.delta)
        return {"d": Variable(start, self.lr_d, ridge=self.lambda_d, project=keep)}

    def calibrate(self, v: Variables, g: Tensor) -> Tensor:
        return torch.addcmul(g, v["d"], g)

    def pull(self, v: Variables, g: Tensor, slope: Tensor) -> dict[str, Tensor]:
        """dL/dd = g * dL/d(d * g), and slope = d * dL/d(d * g) with d >= 1 / bound."""
        return {"d": g.mul_(slope).div_(1 + v["d"])}


@dataclass(frozen=True, kw_only=True)
class CalibratedTensors(Calibrated):
    """d is one number for each tensor of the model: no more memory than the plain cosine."""

    counts: tuple[int, ...]
    """Entries of each tensor, in order."""

    def variables(self, known: Known) -> dict[str, Variable]:
        per_entry = super().variables(known)["d"]
        return {"d": replace(per_entry, start=known.delta.new_zeros(len(self.counts)))}

    def calibrate(self, v: Variables, g: Tensor) -> Tensor:
        pieces = zip(torch.split(g, list(self.counts)), v["d"].unbind(), strict=True)
        return torch.cat([torch.addcmul(piece, piece, d) for piece, d in pieces])

    def pull(self, v: Variables, g: Tensor, slope: Tensor) -> dict[str, Tensor]:
        pieces = zip(torch.split(g, list(self.counts)), torch.split(slope, list(self.counts)), strict=True)
        return {"d": torch.stack([torch.dot(mine, other) for mine, other in pieces]) / (1 + v["d"])}


@dataclass(frozen=True, kw_only=True)
class Wrapped(ABC):
    """Another comparison for a matching that keeps its variables."""

    inner: Matching

    @property
    def moves(self) -> tuple[str, ...]:
        return self.inner.moves

    def variables(self, known: Known) -> dict[str, Variable]:
        return self.inner.variables(known)

    def calibrate(self, v: Variables, g: Tensor) -> Tensor:
        return self.inner.calibrate(v, g)

    @abstractmethod
    def distance(self, g: Tensor, known: Known) -> Tensor: ...

    def loss(self, g: Tensor, known: Known) -> Tensor:
        return self.distance(g, known)

    def pull(self, v: Variables, g: Tensor, slope: Tensor) -> dict[str, Tensor]:
        return self.inner.pull(v, g, slope)


@dataclass(frozen=True, kw_only=True)
class Masked(Wrapped):
    """1 - cos(m * g, m * delta): only coordinates that were sent count."""

    mask: Tensor = field(repr=False)
    """m (p,)."""

    def distance(self, g: Tensor, known: Known) -> Tensor:
        return cosine_distance(self.mask * g, self.mask * known.delta)

    def loss(self, g: Tensor, known: Known) -> Tensor:
        return self.inner.loss(self.mask * g, known)


@dataclass(frozen=True, kw_only=True)
class Imitating(Wrapped):
    """1 - cos(D(g), delta): the dummy update goes through the defense D that the client declared."""

    defenses: tuple[Imitable, ...]

    def distance(self, g: Tensor, known: Known) -> Tensor:
        return cosine_distance(self._defended(g, known), known.delta)

    def loss(self, g: Tensor, known: Known) -> Tensor:
        return self.inner.loss(self._defended(g, known), known)

    def _defended(self, g: Tensor, known: Known) -> Tensor:
        dummy, seen = known.split(g), known.split(known.delta)
        for defense in self.defenses:
            dummy = defense.imitate(dummy, seen)
        return torch.cat([value.reshape(-1) for value in dummy.values()])


@dataclass(frozen=True, kw_only=True)
class Layerwise(Wrapped):
    """1 - sum_l alpha_l cos(g_l, delta*_l) / (sum_l alpha_l + eps)."""

    alpha: Tensor = field(repr=False)
    """(layers,)"""
    target: Tensor = field(repr=False)
    """delta* (p,): the update without its noise."""

    def distance(self, g: Tensor, known: Known) -> Tensor:
        targets = known.split(self.target)
        similar = [
            1 - cosine_distance(part.flatten(), targets[name].flatten()) for name, part in known.split(g).items()
        ]
        return 1 - (self.alpha * torch.stack(similar)).sum() / (self.alpha.sum() + 1e-8)


def per_tensor(matching: Matching, known: Known) -> Matching:
    """The same comparison with one d for each tensor instead of one for each entry."""
    if isinstance(matching, Wrapped):
        return replace(matching, inner=per_tensor(matching.inner, known))
    if isinstance(matching, Calibrated):
        given = {"lambda_d": matching.lambda_d, "lr_d": matching.lr_d, "bound": matching.bound}
        return CalibratedTensors(**given, counts=tuple(known.counts))
    return matching
