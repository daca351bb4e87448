"""Two ways to hold pixels to a prior: blend them with what it makes of them, or pull them towards it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from leakscope.attacks.composition import Composition, Moment, Renewed
from leakscope.attacks.diffusion.evidence import Believing
from leakscope.attacks.known import Dummy, Known, Variables
from leakscope.types import stream

FADED = 1 / 6
"""Part of the blend that is left at the end: 0.3 falls to 0.05."""
LEAST_NOISE = 20


@dataclass(frozen=True, kw_only=True)
class Interleave(Believing):
    """x <- (1 - k) x + k x_0(x_t): noise to a falling level, the prior's guess, a blend whose k falls too.

    After a denoising that the following iterations could not make good, the next one waits and is half as strong.
    """

    kappa: float

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed:
        x, start, trust = v["x"], attack.start, self.belief.trust
        if moment.progress >= 1:
            part, x = self.last_word(x, start, known, moment)
            return part.renewed(attack, x=x)
        good, part = self.explained(start, moment), self.with_best(lambda: x, start, moment)
        part = replace(part, belief=part.belief.after(good))
        if not good:
            return part.renewed(attack)
        blend = self.kappa * (1 + (FADED - 1) * moment.progress) * trust
        return part.renewed(attack, x=torch.lerp(x, self.denoised(x, known, self.time(moment.progress), moment), blend))


@dataclass(frozen=True, kw_only=True)
class Rescore(Believing):
    """Gives the penalty Score its target anew: the prior's guess at the images, from noise of a random time."""

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed:
        x, start = v["x"], attack.start
        if moment.progress >= 1:
            part, x = self.last_word(x, start, known, moment)
            return part.renewed(part.scored(attack), x=x)
        good, part = self.explained(start, moment), self.with_best(lambda: x, start, moment)
        belief = part.belief.after(good)
        part = replace(part, belief=replace(belief, followed=torch.ones_like(belief.trust)))
        draw = stream(round(1e6 * moment.progress), "time for a prior")
        t = int(torch.randint(min(LEAST_NOISE, self.noise), self.noise + 1, (), generator=draw))
        return part.renewed(part.scored(attack, self.denoised(x, known, t, moment)))

    @property
    def strength(self) -> Tensor:
        """(): of the penalty: how far the prior is trusted, once it is followed."""
        return self.belief.trust * self.belief.followed

    def scored(self, attack: Composition, clean: Tensor | None = None) -> Composition:
        """The attack with the penalty as it is now."""
        priors = (
            replace(prior, trust=self.strength, clean=prior.clean if clean is None else clean)
            if isinstance(prior, Score)
            else prior
            for prior in attack.priors
        )
        return replace(attack, priors=tuple(priors))


@dataclass(frozen=True, kw_only=True)
class Score:
    """weight / 2 * trust * mean |x - clean|^2, in units in which black and white are -1 and 1.

    With clean = x_0(x_t) as a constant its gradient is that of RED-diff (Mardani et al. 2023), (1 - abar_t)^1/2 /
    abar_t^1/2 (eps_theta - eps): a penalty on the score's residual without a way back through the network.
    """

    weight: float
    trust: Tensor = field(repr=False)
    """()"""
    clean: Tensor = field(repr=False)
    """(N, C, H, W), normalised."""

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        gap = 2 * (known.normalisation.invert(x) - known.normalisation.invert(self.clean))
        return self.weight / 2 * self.trust * gap.square().mean()
