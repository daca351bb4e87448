"""How far a prior may be followed: as long as the images explain the update no worse than any before them.

A discrepancy principle: a prior decides between images that the evidence does not tell apart, and only between them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from leakscope.attacks.composition import Composition, HeadStart, Moment, Renewed
from leakscope.attacks.known import Known, Variables
from leakscope.prior.denoiser import CLEAN, Denoiser
from leakscope.prior.frame import put_in_frame, take_from_frame
from leakscope.types import stream


@dataclass(frozen=True, kw_only=True)
class Belief:
    """How far the prior is trusted, and what was found without losing evidence."""

    trust: Tensor
    """()"""
    followed: Tensor
    """(): 1 if the prior was followed since the last time, else 0."""
    best: Tensor
    """(): the lowest L_sim so far."""
    kept: Tensor
    """(N, C, H, W): the images that had it, normalised."""

    @classmethod
    def full(cls, known: Known) -> Belief:
        """Full trust in a prior that was not followed yet, and nothing found."""
        one, nothing = torch.ones_like(known.w0[0]), known.w0.new_zeros(known.n, *known.shape)
        return cls(trust=one, followed=0 * one, best=math.inf * one, kept=nothing)

    def after(self, good: bool) -> Belief:
        """If the prior was followed since the last time, trust in it doubles, up to one, or halves: it is not to blame
        for what went on without it. It is followed again where the evidence is satisfied.
        """
        changed = (2 * self.trust).clamp(max=1) if good else self.trust / 2
        trust = changed if bool(self.followed) else self.trust
        return replace(self, trust=trust, followed=torch.full_like(trust, float(good)))


@dataclass(frozen=True, kw_only=True)
class Believing(ABC):
    """What all renewals with a prior share: when they act, how noisy, whether the evidence still allows it."""

    denoiser: Denoiser = field(repr=False)
    steps: int
    """How often the prior is asked; one more time, at the end, the evidence decides."""
    noise: int
    """The time of the noise at the beginning; it falls to zero."""
    slack: float
    """By which part of itself L_sim may exceed the lowest one so far."""
    polish: int = 0
    """The time of the noise that the last images are taken to hold, and cleaned of; 0: they stay as they are."""
    belief: Belief = field(repr=False)

    @abstractmethod
    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed: ...

    @property
    def at(self) -> tuple[float, ...]:
        return tuple((k + 1) / (self.steps + 1) for k in range(self.steps + 1))

    def time(self, progress: float) -> int:
        """Of the noise, falling in a straight line."""
        return CLEAN if progress >= 1 else round(self.noise * (1 - progress))

    def best(self, start: HeadStart | None) -> tuple[Tensor, Tensor]:
        """The lowest L_sim so far, (), and the images (N, C, H, W) that had it: found since the start, or the start."""
        belief = self.belief
        if start is None or start.l_sim is None or bool(belief.best < start.l_sim):
            return belief.best, belief.kept
        return start.l_sim, start.images

    def explained(self, start: HeadStart | None, moment: Moment) -> bool:
        """Whether the images explain the update as well as the best ones so far."""
        return bool(moment.l_sim <= (1 + self.slack) * self.best(start)[0])

    def with_best(self, images: Callable[[], Tensor], start: HeadStart | None, moment: Moment) -> Self:
        """Remembers normalised images that explain the update better than all before them."""
        if not bool(moment.l_sim < self.best(start)[0]):
            return self
        return self.believing(best=moment.l_sim.clone(), kept=images().clone())

    def believing(self, **changes: Tensor) -> Self:
        return replace(self, belief=replace(self.belief, **changes))

    def last_word(self, x: Tensor, start: HeadStart | None, known: Known, moment: Moment) -> tuple[Self, Tensor]:
        """The result (N, C, H, W), normalised: the last images, or the best where the last explain the update worse
        than the start; cleaned by the prior of what the surrogate's error has left in them.
        """
        part = self
        if start is not None and start.l_sim is not None and bool(moment.l_sim > start.l_sim):
            part, x = self.believing(trust=torch.zeros_like(moment.l_sim)), self.best(start)[1]
        return part, self.polished(x, known) if self.polish else x

    def renewed(self, attack: Composition, **moved: Tensor) -> Renewed:
        return Renewed(replace(attack, renewal=self), moved, {"prior_trust": float(self.belief.trust)})

    def polished(self, x: Tensor, known: Known) -> Tensor:
        """What the prior makes of normalised images (N, C, H, W) as they are: their errors take the place of noise."""
        framed = put_in_frame(known.normalisation.invert(x), self.denoiser.side)
        return self._cleaned(self.denoiser.noised(framed, self.polish, torch.zeros_like(framed)), known, self.polish)

    def noised(self, x: Tensor, known: Known, t: int, moment: Moment) -> Tensor:
        """Normalised images (N, C, H, W) in the prior's frame, with noise that the moment determines."""
        framed = put_in_frame(known.normalisation.invert(x), self.denoiser.side)
        draw = stream(round(1e6 * moment.progress), "noise for a prior")
        return self.denoiser.noised(framed, t, torch.randn(framed.shape, generator=draw).to(framed))

    def denoised(self, x: Tensor, known: Known, t: int, moment: Moment) -> Tensor:
        """What the prior makes of normalised images (N, C, H, W) that it sees with noise of time t."""
        return self._cleaned(self.noised(x, known, t, moment), known, t)

    def _cleaned(self, noisy: Tensor, known: Known, t: int) -> Tensor:
        found = self.denoiser.clean(noisy, t).clamp(-1, 1)
        return known.normalisation.apply(take_from_frame(found, known.shape))
