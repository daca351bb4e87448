"""What models other than convolutional nets need: smaller steps, a path held closer, less smoothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.priors import TotalVariation
from leakscope.attacks.surrogate import Bezier


@dataclass(frozen=True, kw_only=True)
class SmallSteps:
    """Pixel rate `lr` and no decay where the model has layer norms: SME's own setting for its ViT."""

    lr: float = 0.1

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        images, said = attack.images, []
        if not has_layer_norm(known) or not isinstance(images, Pixels):
            return attack, known, {}
        if "lr" not in attack.asked:
            attack = replace(attack, images=replace(images, lr=self.lr))
            said.append(f"rate {self.lr:g}")
        if "schedule" not in attack.asked:
            attack = replace(attack, schedule="constant")
            said.append("without decay")
        note = {"steps": f"{' '.join(said)}, because the model has layer norms"} if said else {}
        return attack, known, note


@dataclass(frozen=True, kw_only=True)
class OwnMoments:
    """A second moment for every entry of P1 and d, as in the paper, where layers see whole images or layer norms.

    There a few entries have far larger gradients than the others of their tensor. With one second moment for all of it
    they run away in the first steps, and units behind them die (docs/paper.md).
    """

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if has_convolution(known) and not has_layer_norm(known):
            return attack, known, {}
        note = {"moments": "one for every entry of P1 and d, because the model is no plain convolutional net"}
        return replace(attack, optimiser="adam"), known, note


@dataclass(frozen=True, kw_only=True)
class ShortLeash:
    """`times` lambda_p in fully connected nets: P1 strays from the line by more than the update's length otherwise.

    Units die on the way, now and then, even where every entry has a moment of its own (docs/paper.md).
    """

    times: float = 3.0

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        path = attack.surrogate
        if has_convolution(known) or has_layer_norm(known) or not isinstance(path, Bezier):
            return attack, known, {}
        if "lambda_p" in attack.asked:
            return attack, known, {}
        note = {"leash": f"{self.times:g} times lambda_p, because the model is fully connected"}
        return replace(attack, surrogate=replace(path, lambda_p=self.times * path.lambda_p)), known, note


@dataclass(frozen=True, kw_only=True)
class LessSmoothing:
    """`part` of the total variation where the first layer sees every pixel by a weight of its own.

    Such a layer tells neighbouring pixels apart as well as distant ones, so there is little noise to be smoothed away,
    and the weight that suits convolutional nets blurs strokes instead (docs/paper.md).
    """

    part: float = 0.2

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if has_convolution(known) or "tv" in attack.asked:
            return attack, known, {}
        priors = tuple(
            replace(prior, weight=self.part * prior.weight) if isinstance(prior, TotalVariation) else prior
            for prior in attack.priors
        )
        note = {"smoothing": f"{self.part:g} of the total variation, because the model has no convolutions"}
        return replace(attack, priors=priors), known, note


def has_convolution(known: Known) -> bool:
    return any(isinstance(part, nn.modules.conv._ConvNd) for part in known.module.modules())


def has_layer_norm(known: Known) -> bool:
    return any(isinstance(part, nn.LayerNorm) for part in known.module.modules())
