"""The attacks by name: each a composition of parts, with its paper and equations."""

from __future__ import annotations

from dataclasses import replace

from leakscope.attacks.architectures import LessSmoothing, OwnMoments, ShortLeash, SmallSteps
from leakscope.attacks.engine import Attack
from leakscope.attacks.follow import ITERATIONS, FollowSpan
from leakscope.attacks.images import Pixels
from leakscope.attacks.inversion.invert import TryInversion
from leakscope.attacks.matching import Calibrated, Cosine
from leakscope.attacks.priors import ClassLoss, TotalVariation
from leakscope.attacks.registry import by_model
from leakscope.attacks.surrogate import PATH, Bezier, Linear, Start

TV = 0.01
"""lambda_tv of IG and SME, as SME's authors set it; a fifth of it in nets without convolutions."""
RATE = 2.0
"""Of the pixels in IG and SME, whose authors set 1: both end higher with it, NL-SME does not (docs/paper.md)."""


@by_model("lr", "tv", "schedule")
def ig(*, lr: float = RATE, tv: float = TV, schedule: str = "paper") -> Attack:
    """Inverting Gradients (Geiping et al. 2020) as the paper runs it: the SME loop with the state fixed at w0."""
    return Attack(
        name="ig",
        images=Pixels(lr=lr),
        surrogate=Start(),
        matching=Cosine(),
        priors=(TotalVariation(weight=tv),),
        adaptations=(SmallSteps(), LessSmoothing()),
        schedule=schedule,
    )


@by_model("lr", "tv", "schedule")
def sme(*, lr: float = RATE, lr_t: float = 1e-3, tv: float = TV, schedule: str = "paper") -> Attack:
    """Surrogate Model Extension (Zhu, Yao, Blaschko 2023): one state on the line between w0 and wT (eq. 3)."""
    return Attack(
        name="sme",
        images=Pixels(lr=lr),
        surrogate=Linear(lr_t=lr_t),
        matching=Cosine(),
        priors=(TotalVariation(weight=tv),),
        adaptations=(SmallSteps(), LessSmoothing()),
        schedule=schedule,
    )


@by_model("lr", "tv", "schedule", *PATH)
def nl_sme(
    *,
    lr: float | None = None,
    lr_t: float = 1e-3,
    lr_p: float = 1e-3,
    lr_d: float = 1e-2,
    lambda_p: float = 1e-2,
    lambda_d: float = 1e-5,
    gamma: float = 0.0,
    tv: float | None = None,
    trajectory: bool = True,
    calibration: bool = True,
    schedule: str = "paper",
) -> Attack:
    """NL-SME (the paper, eqs. 5-11): a Bezier path with a learned control point, and calibrated matching.

    `trajectory` and `calibration` are the two switches of the paper's ablation; with both off, or with lr_p = lr_d = 0,
    it is SME. Unless given, `tv` and `lr` are SME's on the line and half of that on a free path, which explains what
    the line leaves to be smoothed over. P1 and d move by Adam, in convolutional nets with one second moment per tensor.
    """
    free = 0.5 if trajectory and lr_p else 1.0
    smooth = free * TV if tv is None else tv
    return Attack(
        name="nl-sme",
        images=Pixels(lr=free * RATE if lr is None else lr),
        surrogate=Bezier(lr_t=lr_t, lr_p=lr_p, lambda_p=lambda_p) if trajectory else Linear(lr_t=lr_t),
        matching=Calibrated(lr_d=lr_d, lambda_d=lambda_d) if calibration else Cosine(),
        priors=(TotalVariation(weight=smooth), *((ClassLoss(weight=gamma),) if gamma else ())),
        adaptations=(SmallSteps(), LessSmoothing(), OwnMoments(), ShortLeash()),
        optimiser="adam-lean",
        schedule=schedule,
    )


@by_model("lr", "tv", "lr_z", "schedule", "iterations", *PATH)
def span_sme(
    *,
    lr: float = 1.0,
    lr_t: float = 1e-3,
    lr_p: float = 1e-3,
    lambda_p: float = 1e-2,
    tv: float = 0.006,
    span: float = 80.0,
    margin: float = 0.3,
    lr_z: float = 1.0,
    trajectory: bool = True,
    unmixing: bool = True,
    straighten: bool = True,
    schedule: str = "cosine",
) -> Attack:
    """SME -> NL-SME -> the span of the private features: our own, see docs/span-sme.md.

    NL-SME without calibration, held to the row space of the first fully connected layer's update; where that layer
    sees the raw image, SME inside the span with unmixing; NL-SME itself where there is no span to believe.
    """
    follow = FollowSpan(
        otherwise=nl_sme(lr=lr, lr_t=lr_t, lr_p=lr_p, lambda_p=lambda_p, trajectory=trajectory),
        weight=span,
        margin=margin,
        lr=lr_z,
        unmixing=unmixing,
        straighten=straighten,
    )
    return Attack(
        name="span-sme",
        images=Pixels(lr=lr),
        surrogate=Bezier(lr_t=lr_t, lr_p=lr_p, lambda_p=lambda_p) if trajectory else Linear(lr_t=lr_t),
        matching=Cosine(),
        priors=(TotalVariation(weight=tv),),
        adaptations=(follow,),
        schedule=schedule,
        iterations=ITERATIONS,
    )


def invert(*, polish: float = 0.0, share: float = 0.4) -> Attack:
    """Unmix, then invert image by image: our own, see docs/inversion.md.

    The features of every image are extreme rays of a cone in the row space of the first fully connected layer's update;
    each is inverted by itself. Images that are missing are left to span-sme, for `share` of its iterations; with
    `polish` it moves all of them, at that part of its rate. Where the layer tells no features apart, it is span-sme.
    """
    whole = span_sme()
    return replace(whole, name="invert", adaptations=(TryInversion(polish=polish, share=share), *whole.adaptations))
