"""Two ways to hold pixels to a prior: blend them with what it makes of them, or pull them towards it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakscope.attacks.composition import Moment
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

    def __call__(self, v: Variables, known: Known, memory: dict[str, Tensor], moment: Moment) -> dict[str, Tensor]:
        if moment.progress >= 1:
            return {"x": self.last_word(v["x"], known, memory, moment)}
        self.keep_best(lambda: v["x"], known, memory, moment)
        if not self.weigh(known, memory, moment):
            return {}
        blend = self.kappa * (1 + (FADED - 1) * moment.progress) * known.constants["trust"]
        return {"x": torch.lerp(v["x"], self.denoised(v["x"], known, self.time(moment.progress), moment), blend)}


@dataclass(frozen=True, kw_only=True)
class Rescore(Believing):
    """Renews the constant `clean` (N, C, H, W): the prior's guess at the images, from noise of a random time."""

    def __call__(self, v: Variables, known: Known, memory: dict[str, Tensor], moment: Moment) -> dict[str, Tensor]:
        if moment.progress >= 1:
            return {"x": self.last_word(v["x"], known, memory, moment)}
        self.keep_best(lambda: v["x"], known, memory, moment)
        self.weigh(known, memory, moment)
        draw = stream(round(1e6 * moment.progress), "time for a prior")
        t = int(torch.randint(min(LEAST_NOISE, self.noise), self.noise + 1, (), generator=draw))
        memory["clean"] = self.denoised(v["x"], known, t, moment)
        memory["followed"] = torch.ones_like(known.constants["trust"])
        return {}


@dataclass(frozen=True, kw_only=True)
class Score:
    """weight / 2 * trust * mean |x - clean|^2, in units in which black and white are -1 and 1.

    With clean = x_0(x_t) as a constant its gradient is that of RED-diff (Mardani et al. 2023), (1 - abar_t)^1/2 /
    abar_t^1/2 (eps_theta - eps): a penalty on the score's residual without a way back through the network.
    """

    weight: float

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        gap = 2 * (known.normalisation.invert(x) - known.normalisation.invert(known.constants["clean"]))
        trust = known.constants["trust"] * known.constants["followed"]
        return self.weight / 2 * trust * gap.square().mean()
