"""How far a prior may be followed: as long as the images explain the update no worse than those it began with.

The discrepancy principle: a prior decides between images that the evidence does not tell apart, and only between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.attacks.changes import Moment
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
    slack: float = 0.0
    """By which part of itself L_sim may exceed that of the start."""

    @property
    def at(self) -> tuple[float, ...]:
        return tuple((k + 1) / (self.steps + 1) for k in range(self.steps + 1))

    def time(self, progress: float) -> int:
        """Of the noise, falling in a straight line."""
        return CLEAN if progress >= 1 else round(self.noise * (1 - progress))

    def explained(self, known: Known, moment: Moment) -> bool:
        """Whether the images explain the update as well as the start; always, where there is no start."""
        start = known.constants.get("start_l_sim")
        return start is None or bool(moment.l_sim <= (1 + self.slack) * start)

    def weigh(self, known: Known, memory: dict[str, Tensor], moment: Moment) -> bool:
        """Whether the evidence is satisfied. If the prior was followed since the last time, trust in it doubles, up to
        one, or halves: it is not to blame for what went on without it.
        """
        good, trust = self.explained(known, moment), known.constants["trust"]
        if bool(known.constants["followed"]):
            memory["trust"] = (2 * trust).clamp(max=1) if good else trust / 2
        memory["followed"] = torch.full_like(trust, float(good))
        return good

    def noised(self, x: Tensor, known: Known, t: int, moment: Moment) -> Tensor:
        """Normalised images (N, C, H, W) in the prior's frame, with noise that the moment determines."""
        framed = put_in_frame(known.normalisation.invert(x), self.denoiser.side)
        draw = stream(round(1e6 * moment.progress), "noise for a prior")
        return self.denoiser.noised(framed, t, torch.randn(framed.shape, generator=draw).to(framed))

    def denoised(self, x: Tensor, known: Known, t: int, moment: Moment) -> Tensor:
        """What the prior makes of normalised images (N, C, H, W) that it sees with noise of time t."""
        found = self.denoiser.clean(self.noised(x, known, t, moment), t).clamp(-1, 1)
        return known.normalisation.apply(take_from_frame(found, known.shape))

    def last_word(self, known: Known, memory: dict[str, Tensor], moment: Moment) -> Tensor | None:
        """At the end: the start (N, C, H, W), normalised, where nothing found since explains the update as well."""
        if self.explained(known, moment):
            return None
        memory["trust"] = torch.zeros_like(moment.l_sim)
        return known.constants["start"]
