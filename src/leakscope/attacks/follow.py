"""What span-sme makes of the span of the private features, once it has seen the update."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from leakscope.attacks.architectures import has_layer_norm
from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.drift import Straighten
from leakscope.attacks.few_steps import usual_iterations
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Layerwise, Wrapped
from leakscope.attacks.span import FeatureSpan, SoftBox, SpanImages, exact_rank, layer_update, row_space
from leakscope.attacks.surrogate import PATH, Bezier, Linear
from leakscope.attacks.unmix import Unmix

TRUSTED_TAIL = 3e-4
"""Share of the layer's energy outside the span up to which the span is believed (undefended updates: below 1e-4)."""
ITERATIONS = 300
"""span-sme's own."""


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
        if isinstance(attack.matching, Layerwise):
            return self._without(attack, known, "the update is noisy, and denoising leaves a span of its own")
        basis, sizes = row_space(layer_update(known), min(layer_update(known).shape))
        if rank := exact_rank(known, sizes):
            note = f"exact, rank {rank}, in the update of {known.feature_layer}"
            return self._inside(attack, known, basis[:, :rank].to(known.w0)), known, {"span": note}
        rank = min(round(known.n * (1 + self.margin)), len(sizes))
        if known.n > len(sizes):
            return self._without(attack, known, f"{known.feature_layer} has {len(sizes)} rows, too few for N={known.n}")
        tail = float(sizes[rank:].square().sum() / sizes.square().sum())
        outside = f"{100 * tail:.2g} % of the energy of {known.feature_layer} lies outside rank {rank}"
        if tail > TRUSTED_TAIL:
            return self._without(attack, known, outside)
        span = FeatureSpan(span=basis[:, :rank].to(known.w0), weight=self.weight, fade=self.fade)
        attack = replace(
            attack,
            priors=(*attack.priors, span),
            renewal=Straighten() if self.straighten else None,
        )
        return attack, known, {"span": f"prior, {outside}"}

    def _without(self, attack: Composition, known: Known, why: str) -> Adapted:
        """The other attack, with what reliability-aware matching has found out and what was asked for."""
        other, matching = self.otherwise, attack.matching
        schedule = attack.schedule if "schedule" in attack.asked else other.schedule
        own = attack.iterations == ITERATIONS and "iterations" not in attack.asked
        attack = replace(
            attack,
            matching=replace(matching, inner=other.matching) if isinstance(matching, Wrapped) else other.matching,
            priors=attack.priors if "tv" in attack.asked else other.priors,
            optimiser=other.optimiser,
            schedule=schedule,
            iterations=usual_iterations(other, schedule) if own else attack.iterations,
        )
        note: dict[str, object] = {"span": f"not used, {other.name} instead: {why}"}
        for adaptation in other.adaptations:
            attack, known, more = adaptation(attack, known)
            note.update(more)
        return attack, known, note

    def _inside(self, attack: Composition, known: Known, span: Tensor) -> Composition:
        """N^2 unknowns leave no need for a free control point, which would only fit the update without the images."""
        surrogate = attack.surrogate
        if isinstance(surrogate, Bezier) and not attack.asked & PATH:
            surrogate = Linear(t=surrogate.t, lr_t=surrogate.lr_t)
        slower = 0.3 if has_layer_norm(known) and "lr_z" not in attack.asked else 1.0
        return replace(
            attack,
            images=SpanImages(span=span, lr=slower * self.lr),
            surrogate=surrogate,
            priors=(*attack.priors, SoftBox()),
            renewal=Unmix() if self.unmixing else None,
        )
