"""How far a prior may be followed: as long as the images explain the update no worse than any before them.

A discrepancy principle: a prior decides between images that the evidence does not tell apart, and only between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.attacks.composition import Moment
from leakscope.attacks.known import Known
from leakscope.prior.denoiser import CLEAN, Denoiser
from leakscope.prior.frame import put_in_frame, take_from_frame
from leakscope.types import stream


@dataclass(frozen=True, kw_only=True)
class Believing:
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

    @property
    def at(self) -> tuple[float, ...]:
        return tuple((k + 1) / (self.steps + 1) for k in range(self.steps + 1))

    def time(self, progress: float) -> int:
        """Of the noise, falling in a straight line."""
        return CLEAN if progress >= 1 else round(self.noise * (1 - progress))

    def best(self, known: Known) -> tuple[Tensor, Tensor]:
        """The lowest L_sim so far, (), and the images (N, C, H, W) that had it: found since the start, or the start."""
        found, start = known.constants["best"], known.constants.get("start_l_sim")
        if start is None or bool(found < start):
            return found, known.constants["kept"]
        return start, known.constants["start"]

    def explained(self, known: Known, moment: Moment) -> bool:
        """Whether the images explain the update as well as the best ones so far."""
        return bool(moment.l_sim <= (1 + self.slack) * self.best(known)[0])

    def keep_best(self, images: Callable[[], Tensor], known: Known, memory: dict[str, Tensor], moment: Moment) -> None:
        """Remember normalised images that explain the update better than all before them."""
        if bool(moment.l_sim < self.best(known)[0]):
            memory["best"], memory["kept"] = moment.l_sim.clone(), images().clone()

    def weigh(self, known: Known, memory: dict[str, Tensor], moment: Moment) -> bool:
        """Whether the evidence is satisfied. If the prior was followed since the last time, trust in it doubles, up to
        one, or halves: it is not to blame for what went on without it.
        """
        good, trust = self.explained(known, moment), known.constants["trust"]
        if bool(known.constants["followed"]):
            memory["trust"] = (2 * trust).clamp(max=1) if good else trust / 2
        memory["followed"] = torch.full_like(trust, float(good))
        return good

    def last_word(self, x: Tensor, known: Known, memory: dict[str, Tensor], moment: Moment) -> Tensor:
        """The result (N, C, H, W), normalised: the last images, or the best where the last explain the update worse
        than the start; cleaned by the prior of what the surrogate's error has left in them.
        """
        start = known.constants.get("start_l_sim")
        if start is not None and bool(moment.l_sim > start):
            memory["trust"] = torch.zeros_like(moment.l_sim)
            x = self.best(known)[1]
        return self.polished(x, known) if self.polish else x

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
