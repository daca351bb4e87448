"""Bring a prior into an attack: read it, see that it fits the client's images, and put the parts of a mode in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.diffusion.denoising import Interleave, Rescore, Score
from leakscope.attacks.diffusion.evidence import Belief
from leakscope.attacks.diffusion.guidance import Descend, DiffusionProjected
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.warm_start import StartFrom
from leakscope.errors import Problem, refuse
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.folder import MAKE, find_prior, fingerprint, read_denoiser, read_facts
from leakscope.prior.frame import side_for

Mode = Literal["interleaved", "dps", "score"]
STEPS: Mapping[str, int] = {"interleaved": 50, "dps": 200, "score": 200}
"""How often the prior is asked, at most once an iteration."""


def without_a_prior(name: str) -> Problem:
    """The complaint of an attack that was given none."""
    return Problem(
        f"{name} needs a prior", why="it knows what such images look like from other ones", fix=f"--prior PATH; {MAKE}"
    )


@dataclass(frozen=True, kw_only=True)
class GoOnFromItself:
    """Gives the share `share` of the iterations to the attack as it is, and goes on more carefully from there."""

    name: str
    share: float
    rate: float
    """Factor on the pixels' rate."""
    schedule: str

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        first = replace(attack, name=self.name, adaptations=())
        attack, known, note = StartFrom(attack=first, share=self.share)(attack, known)
        assert isinstance(attack.images, Pixels)
        images = replace(attack.images, lr=self.rate * attack.images.lr)
        return replace(attack, images=images, schedule=self.schedule), known, note


@dataclass(frozen=True, kw_only=True)
class UsePrior:
    """Reads the prior and composes the attack with it, as the mode says."""

    prior: str | None = field(repr=False)
    mode: Mode
    steps: int | None
    noise: int
    slack: float
    polish: int
    kappa: float
    weight: float
    zeta: float

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        refuse(self._ungranted(attack.name, known))
        folder = find_prior(str(self.prior))
        denoiser = read_denoiser(folder).to(known.w0)
        refuse(self._misfits(denoiser, known))
        steps = min(self.steps or STEPS[self.mode], max(1, attack.iterations - 1))
        asked = {"denoiser": denoiser, "steps": steps, "slack": self.slack, "polish": self.polish}
        attack = MODES[self.mode](self, attack, **asked, belief=Belief.full(known))
        facts = read_facts(folder)
        said = {name: fact for name, fact in facts.items() if name in ("data", "steps", "avoided")}
        note: dict[str, object] = {"mode": self.mode, "fingerprint": fingerprint(folder), "asked": steps, **said}
        return attack, known, {"prior": note}

    def _ungranted(self, name: str, known: Known) -> Iterator[Problem]:
        if self.prior is None:
            yield without_a_prior(name)
        if not known.auxiliary:
            yield Problem(
                f"{name} uses other images of the same kind, which this attacker is not granted",
                fix="observe with Knowledge(auxiliary=True); on the command line --prior grants them",
            )

    def _misfits(self, denoiser: Denoiser, known: Known) -> Iterator[Problem]:
        channels, height, width = known.shape
        side = side_for(known.shape)
        why = f"the client's images are {channels}x{height}x{width}"
        fix = f"train one on images of that size: {MAKE}"
        if denoiser.channels != channels:
            yield Problem(f"the prior is for images with {denoiser.channels} channel(s)", why=why, fix=fix)
        if denoiser.side != side:
            found = f"the prior is for images of {denoiser.side}x{denoiser.side}, not {side}x{side}"
            yield Problem(found, why=why, fix=fix)
        for name, time in (("noise", self.noise), ("polish", self.polish)):
            if not 0 <= time < denoiser.times:
                yield Problem(f"dggi.{name}={time} is no time of the prior", fix=f"0 to {denoiser.times - 1}")


def interleaved(use: UsePrior, attack: Composition, **asked: Any) -> Composition:
    """Denoising between iterations."""
    return replace(attack, renewal=Interleave(kappa=use.kappa, noise=use.noise, **asked))


def score(use: UsePrior, attack: Composition, **asked: Any) -> Composition:
    """A penalty that is renewed between iterations, and there from the beginning: a compiled step keeps its form."""
    renewal = Rescore(noise=use.noise, **asked)
    penalty = Score(weight=use.weight, trust=renewal.strength, clean=renewal.belief.kept)
    return replace(attack, renewal=renewal, priors=(*attack.priors, penalty))


def dps(use: UsePrior, attack: Composition, **asked: Any) -> Composition:
    """Guided sampling, from noise alone where there is nothing to start from."""
    denoiser = asked["denoiser"]
    noise = denoiser.times - 1 if attack.preparation is None else use.noise
    images = DiffusionProjected(denoiser=denoiser, noise=noise, lr=use.zeta)
    schedule = attack.schedule if "schedule" in attack.asked else "constant"
    return replace(attack, images=images, renewal=Descend(noise=noise, **asked), schedule=schedule)


MODES: Mapping[str, Callable[..., Composition]] = {"interleaved": interleaved, "dps": dps, "score": score}
