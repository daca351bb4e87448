"""Guided sampling (DPS, Chung et al. 2023): the prior draws the images, the update says which ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from leakscope.attacks.composition import Composition, Moment, Renewed
from leakscope.attacks.diffusion.evidence import Believing
from leakscope.attacks.images import FromImages
from leakscope.attacks.known import Known, Variable, Variables
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.frame import put_in_frame, take_from_frame


@dataclass(frozen=True, kw_only=True)
class DiffusionProjected(FromImages):
    """x = x_0(x_t), the prior's guess at the noisy image that is optimised; t is the variable `time`, of rate zero.

    Starts from `start` with noise of time `noise`, or without one from noise alone. The prediction of
    the noise is taken as a constant: guidance costs one pass through the network and no way back.
    """

    traceable: ClassVar[bool] = False
    denoiser: Denoiser = field(repr=False)
    noise: int
    lr: float
    """Of x_t, whose black and white are -1 and 1: the guidance zeta."""

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        side, start = self.denoiser.side, self.start
        eps = torch.randn(known.n, known.shape[0], side, side, generator=generator).to(known.w0)
        framed = 0 * eps if start is None else put_in_frame(known.normalisation.invert(start), side)
        noisy = self.denoiser.noised(framed, self.noise, eps)
        return {"x": Variable(noisy, self.lr), "time": Variable(known.w0.new_tensor(float(self.noise)), 0.0)}

    def decode(self, v: Variables, known: Known) -> Tensor:
        return guess(self.denoiser, v, known)


def guess(denoiser: Denoiser, v: Variables, known: Known) -> Tensor:
    """(N, C, H, W), normalised: the images behind the noisy ones."""
    return known.normalisation.apply(take_from_frame(denoiser.clean(v["x"], int(v["time"])), known.shape))


@dataclass(frozen=True, kw_only=True)
class Descend(Believing):
    """A step of DDIM to the next time, between iterations that follow the update."""

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed:
        part = self.with_best(lambda: guess(self.denoiser, v, known), attack.start, moment)
        to = self.time(moment.progress)
        x = self.denoiser.step(v["x"], int(v["time"]), to)
        if moment.progress >= 1:
            images = known.normalisation.apply(take_from_frame(x, known.shape))
            part, last = part.last_word(images, attack.start, known, moment)
            x = put_in_frame(known.normalisation.invert(last), self.denoiser.side)
        return part.renewed(attack, x=x, time=torch.full_like(v["time"], to))
