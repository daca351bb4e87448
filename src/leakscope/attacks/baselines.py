"""The methods to compare with: classics, generators, diffusion, the simulation attack. See docs/baselines.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from leakscope.attacks.architectures import SmallSteps
from leakscope.attacks.composition import Adaptation, Adapted, Composition
from leakscope.attacks.copies import EpochCopies, OrderInvariance
from leakscope.attacks.diffusion.granting import GoOnFromItself, Mode, UsePrior
from leakscope.attacks.direction import Direction, Gradient, GradientRegularisation, Signed
from leakscope.attacks.engine import Attack
from leakscope.attacks.generators.base import WidthByDevice
from leakscope.attacks.generators.fedleak import UntrainedGenerator
from leakscope.attacks.generators.gi_nas import Search, SearchedGenerator
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Cosine
from leakscope.attacks.partial import PartialTopR, SquaredError
from leakscope.attacks.priors import TotalVariation
from leakscope.attacks.recipes import nl_sme, sme
from leakscope.attacks.registry import build_attack, by_model
from leakscope.attacks.surrogate import Linear, Start, Surrogate
from leakscope.attacks.unrolled import Trainable, Unrolled
from leakscope.attacks.warm_start import StartFrom

State = Literal["w0", "sme"]
STATES: dict[str, Callable[[], Surrogate]] = {"w0": Start, "sme": Linear}
SIGNS: dict[str, Direction] = {"none": Gradient(), "hard": Signed(), "soft": Signed(soft=True)}


@dataclass(frozen=True, kw_only=True)
class ForgetLabels:
    """Labels are optimised with the images, even where they were granted."""

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        return attack, replace(known, labels=None), {"labels": "optimised with the images; granted ones were not used"}


@by_model("optimiser")
def dlg(
    *,
    lr: float | None = None,
    optimiser: Literal["adam", "lbfgs"] = "adam",
    labels: Literal["soft", "granted"] = "soft",
) -> Attack:
    """Deep Leakage from Gradients (Zhu, Liu, Han 2019): squared error of the gradient at w0, labels optimised too.

    `lr` is 0.1 with Adam and 1 with L-BFGS.
    """
    lr = lr if lr is not None else {"adam": 0.1, "lbfgs": 1.0}[optimiser]
    return Attack(
        name="dlg",
        images=Pixels(lr=lr, box=False),
        surrogate=Start(),
        matching=SquaredError(),
        priors=(TotalVariation(weight=0.0),),
        adaptations=(ForgetLabels(),) if labels == "soft" else (),
        optimiser=optimiser,
        schedule="constant",
    )


def ig_official(
    *, lr: float = 0.1, tv: float = 1e-2, signed: Literal["none", "hard", "soft"] = "hard", schedule: str = "paper"
) -> Attack:
    """Inverting Gradients (Geiping et al. 2020) with its authors' settings: signs of the gradient, rate 0.1, decay.

    `tv` is in their convention, mean |dx| + mean |dy|: twice ours.
    """
    return Attack(
        name="ig-official",
        images=Pixels(lr=lr),
        surrogate=Start(),
        matching=Cosine(),
        priors=(TotalVariation(weight=2 * tv),),
        direction=SIGNS[signed],
        schedule=schedule,
    )


def fedleak(
    *,
    lr: float = 1e-2,
    ratio: float = 0.5,
    by: Literal["dummy", "target"] = "dummy",
    blend: float = 0.3,
    probe: Literal["optimizer", "ascent"] = "optimizer",
    signed: bool = True,
    tv: float = 0.1,
    width: int | None = None,
    state: State = "w0",
    schedule: str = "cosine",
) -> Attack:
    """FedLeak (Fan et al. 2025): partial matching, gradient regularisation, an untrained generator."""
    return Attack(
        name="fedleak",
        images=UntrainedGenerator(lr=lr, width=width),
        surrogate=STATES[state](),
        matching=PartialTopR(ratio=ratio, by=by),
        priors=(TotalVariation(weight=2 * tv),),
        adaptations=(WidthByDevice(cpu=32),),
        optimiser="adamw",
        direction=GradientRegularisation(blend=blend, probe=probe, signed=signed),
        schedule=schedule,
    )


def fedleak_pixel(
    *,
    lr: float = 0.1,
    ratio: float = 0.5,
    by: Literal["dummy", "target"] = "dummy",
    blend: float = 0.7,
    radius: float = 1e-3,
    tv: float = 1e-5,
    state: State = "w0",
    schedule: str = "cosine",
) -> Attack:
    """FedLeak's matching and gradient regularisation on pixels, with the probe up the gradient."""
    return Attack(
        name="fedleak-pixel",
        images=Pixels(lr=lr),
        surrogate=STATES[state](),
        matching=PartialTopR(ratio=ratio, by=by),
        priors=(TotalVariation(weight=2 * tv),),
        direction=GradientRegularisation(blend=blend, probe="ascent", radius=radius, signed=False),
        schedule=schedule,
    )


def gi_nas(
    *,
    lr: float = 3e-3,
    candidates: int | None = None,
    signed: bool = True,
    tv: float = 0.03,
    width: int | None = None,
    state: State = "w0",
    schedule: str = "constant",
) -> Attack:
    """GI-NAS (Yu et al. 2025): an untrained generator whose architecture is searched without training."""
    return Attack(
        name="gi-nas",
        images=SearchedGenerator(lr=lr, width=width),
        surrogate=STATES[state](),
        matching=Cosine(),
        priors=(TotalVariation(weight=tv),),
        adaptations=(WidthByDevice(cpu=32), SearchByDevice(count=candidates)),
        direction=Signed() if signed else Gradient(),
        schedule=schedule,
    )


@dataclass(frozen=True, kw_only=True)
class SearchByDevice:
    """200 candidates on an accelerator, 20 on a CPU, where nobody said how many."""

    count: int | None = None

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        count = self.count or (20 if known.w0.device.type == "cpu" else 200)
        return replace(attack, preparation=Search(count=count)), known, {}


@by_model("lr", "schedule")
def unrolled(
    *,
    steps: Literal["full", "epochs", "coarse"] = "coarse",
    count: int | None = None,
    lr: float | None = None,
    tv: float = 0.01,
    start: str = "noise",
    share: float = 0.6,
    copies: bool = False,
    order_weight: float = 1000.0,
    schedule: str = "cosine",
) -> Attack:
    """The simulation attack (Dimitrov et al. 2022): differentiates through the client's training, whole or coarse.

    `copies`: an own set of dummy images for every epoch, tied by an order-invariant prior. `start`: the name of an
    attack that gets the first `share` of the iterations. `lr` is 1 from noise and 0.1 from there.
    """
    lr = lr if lr is not None else 1.0 if start == "noise" else 0.1
    priors = (TotalVariation(weight=tv), *((OrderInvariance(weight=order_weight),) if copies else ()))
    first: tuple[Adaptation, ...] = (
        () if start == "noise" else (StartFrom(attack=build_attack(start, {}), share=share),)
    )
    return Attack(
        name="unrolled",
        images=EpochCopies(lr=lr) if copies else Pixels(lr=lr),
        surrogate=Unrolled(steps=steps, count=count),
        matching=Cosine(),
        priors=priors,
        adaptations=(Trainable(), SmallSteps(), *first),
        schedule=schedule,
    )


@by_model("lr", "tv", "schedule")
def dggi(
    *,
    prior: str | None = None,
    mode: Mode = "interleaved",
    state: Literal["sme", "nl-sme"] = "sme",
    steps: int | None = None,
    noise: int = 400,
    kappa: float = 0.3,
    weight: float = 1e-2,
    zeta: float = 0.1,
    slack: float = 0.05,
    polish: int = 30,
    share: float = 0.6,
    lr: float | None = None,
    rate: float = 0.1,
    tv: float | None = None,
    schedule: str = "cosine",
) -> Attack:
    """DGGI-style (after Wu et al. 2025): SME or NL-SME held to a diffusion prior, by denoising, guidance or a penalty.

    The first `share` of the iterations are the attack's own, with its `lr` and `tv`; the others go on from there at
    `rate` times its rate. In them the prior is asked `steps` times, with noise that falls from time `noise`, and
    followed as long as L_sim stays below (1 + slack) times its lowest value so far. Where L_sim ends above that of the
    start, the images with the lowest one count. In the end the prior cleans them of noise as of time `polish`. `kappa`
    is the blend of `interleaved`, `weight` the penalty of `score`, `zeta` the rate of `dps`.
    """
    own: dict[str, Any] = {name: value for name, value in (("lr", lr), ("tv", tv)) if value is not None}
    base = {"sme": sme, "nl-sme": nl_sme}[state](**own)
    first: tuple[Adaptation, ...] = (
        (GoOnFromItself(name=base.name, share=share, rate=rate, schedule=schedule),) if share > 0 else ()
    )
    use = UsePrior(
        prior=prior,
        mode=mode,
        steps=steps,
        noise=noise,
        slack=slack,
        polish=polish,
        kappa=kappa,
        weight=weight,
        zeta=zeta,
    )
    return replace(base, name="dggi", adaptations=(*base.adaptations, *first, use))
