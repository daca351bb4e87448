"""The span of the private features: what the first fully connected layer gives away for any number of local steps.

Its update is a sum of outer products, dW = sum_tau sum_i delta_i(tau) a_i(tau)^T, so the private features a_i lie in
its row space: exactly where the layer sees the raw image, which never changes, and to about 1 % behind convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakscope.attacks.architectures import has_layer_norm
from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.drift import Straighten, features, layer_update, row_space
from leakscope.attacks.known import Dummy, Known, Variable, Variables
from leakscope.attacks.matching import Wrapped
from leakscope.attacks.surrogate import Bezier, Linear
from leakscope.attacks.unmix import Unmix

TRUSTED_TAIL = 3e-4
"""Share of the layer's energy outside the span up to which the span is believed (undefended updates: below 1e-4)."""
ITERATIONS = 300
"""span-sme's own."""
EXACT_GAP = 0.05
"""Ratio of two singular values in a row below which the span of raw images is taken to end between them."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpan:
    """R_span = sum_i |a_i - V V^T a_i|^2 / sum_i |a_i|^2, with V the constant `span` (F, k).

    a_i are the dummy features at the mid-model w0 - delta/2, whose private features are nearest to the span, and not at
    the state of the surrogate: a free control point would bend them into any span. The weight grows between the two
    parts of the iterations in `fade`: from the start it would hold noise in place, and the span is better known later.
    """

    weight: float = 80.0
    fade: tuple[float, float] = (0.1, 1.0)

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        a, basis = features(known, known.w0 - known.delta / 2, x), known.constants["span"]
        outside = a - (a @ basis) @ basis.T
        begin, end = self.fade
        strength = ((progress - begin) / (end - begin)).clamp(0, 1)
        size = a.detach().square().sum().clamp_min(torch.finfo(a.dtype).tiny)
        return self.weight * strength * outside.square().sum() / size


@dataclass(frozen=True, kw_only=True)
class SpanImages:
    """x = z V^T: images inside the exact span of the private ones. z: (N, r)."""

    lr: float = 1.0

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        start = torch.randn(known.n, known.constants["span"].shape[1], generator=generator)
        return {"z": Variable(start.to(known.w0), self.lr)}

    def decode(self, v: Variables, known: Known) -> Tensor:
        return (v["z"] @ known.constants["span"].T).view(known.n, *known.shape)


@dataclass(frozen=True, kw_only=True)
class SoftBox:
    """weight * mean squared way out of the box, for images that cannot be clamped."""

    weight: float = 0.1

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        low, high = known.normalisation.box(x)
        return self.weight * (torch.relu(low - x) + torch.relu(x - high)).square().mean()


@dataclass(frozen=True, kw_only=True)
class FollowSpan:
    """Add the span to an attack: as the images' own space where it is exact, as a prior where it is believed.

    Where there is none, or none to believe, `otherwise` is run instead.
    """

    otherwise: Composition
    weight: float = 80.0
    margin: float = 0.3
    """The prior keeps N (1 + margin) directions: features move a little while the client trains."""
    fade: tuple[float, float] = (0.1, 1.0)
    lr: float = 1.0
    unmixing: bool = True
    straighten: bool = True

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if known.feature_layer is None:
            return self._without(attack, known, "the model has no fully connected layer on image vectors")
        if "target" in known.constants:
            return self._without(attack, known, "the update is noisy, and denoising leaves a span of its own")
        basis, sizes = row_space(layer_update(known), min(layer_update(known).shape))
        if rank := exact_rank(known, sizes):
            known = replace(known, constants={**known.constants, "span": basis[:, :rank].to(known.w0)})
            note = f"exact, rank {rank}, in the update of {known.feature_layer}"
            return self._inside(attack, known), known, {"span": note}
        rank = min(round(known.n * (1 + self.margin)), len(sizes))
        if known.n > len(sizes):
            return self._without(attack, known, f"{known.feature_layer} has {len(sizes)} rows, too few for N={known.n}")
        tail = float(sizes[rank:].square().sum() / sizes.square().sum())
        outside = f"{100 * tail:.2g} % of the energy of {known.feature_layer} lies outside rank {rank}"
        if tail > TRUSTED_TAIL:
            return self._without(attack, known, outside)
        known = replace(known, constants={**known.constants, "span": basis[:, :rank].to(known.w0)})
        attack = replace(
            attack,
            priors=(*attack.priors, FeatureSpan(weight=self.weight, fade=self.fade)),
            renewal=Straighten() if self.straighten else None,
        )
        return attack, known, {"span": f"prior, {outside}"}

    def _without(self, attack: Composition, known: Known, why: str) -> Adapted:
        """The other attack, with what reliability-aware matching has found out, and its own length unless asked."""
        other, matching = self.otherwise, attack.matching
        own = attack.iterations == ITERATIONS
        attack = replace(
            attack,
            matching=replace(matching, inner=other.matching) if isinstance(matching, Wrapped) else other.matching,
            priors=other.priors,
            optimiser=other.optimiser,
            schedule=other.schedule,
            iterations=other.iterations if own else attack.iterations,
        )
        note: dict[str, object] = {"span": f"not used, {other.name} instead: {why}"}
        for adaptation in other.adaptations:
            attack, known, more = adaptation(attack, known)
            note.update(more)
        return attack, known, note

    def _inside(self, attack: Composition, known: Known) -> Composition:
        """N^2 unknowns leave no need for a free control point, which would only fit the update without the images."""
        surrogate = attack.surrogate
        if isinstance(surrogate, Bezier):
            surrogate = Linear(t=surrogate.t, lr_t=surrogate.lr_t)
        return replace(
            attack,
            images=SpanImages(lr=0.3 * self.lr if has_layer_norm(known) else self.lr),
            surrogate=surrogate,
            priors=(*attack.priors, SoftBox()),
            renewal=Unmix() if self.unmixing else None,
        )


def exact_rank(known: Known, sizes: Tensor) -> int:
    """Where the singular values `sizes` of a layer that sees raw images end: at N, or before it; 0 where they do not.

    An image that never had a gradient, or one that is there twice, leaves the rank below N.
    """
    if len(sizes) <= known.n or not sees_raw_image(known):
        return 0
    ratios = sizes[1 : known.n + 1] / sizes[: known.n]
    rank = int(ratios.argmin()) + 1
    return rank if float(ratios[rank - 1]) < EXACT_GAP else 0


def sees_raw_image(known: Known) -> bool:
    """Whether the first fully connected layer's input is the flattened image itself."""
    x = torch.rand(2, *known.shape, dtype=known.w0.dtype, device=known.w0.device)
    with torch.no_grad():
        a = features(known, known.w0, x)
    return a.numel() == x.numel() and bool(torch.equal(a.flatten(1), x.flatten(1)))
