"""The span of the private features: what the first fully connected layer gives away for any number of local steps.

Its update is a sum of outer products, dW = sum_tau sum_i delta_i(tau) a_i(tau)^T, so the private features a_i lie in
its row space: exactly where the layer sees the raw image, which never changes, and to about 1 % behind convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakscope.attacks.known import Dummy, Known, Variable, Variables
from leakscope.attacks.surrogate import Bezier, Linear
from leakscope.attacks.transformers import has_layer_norm
from leakscope.attacks.unmix import Unmix

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack

TRUSTED_TAIL = 3e-4
"""Share of the layer's energy outside the span up to which the span is believed (undefended updates: below 1e-4)."""
EXACT_GAP = 0.05
"""Ratio of singular values N+1 and N below which the span of raw images is taken to be exact."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpan:
    """R_span = sum_i |a_i - V V^T a_i|^2 / sum_i |a_i|^2 for the dummy features a_i, with V the constant `span` (F, k).

    It fades in between the two parts of the iterations in `fade`: from the start it would hold noise in place.
    """

    weight: float = 3.0
    fade: tuple[float, float] = (0.1, 0.3)

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        assert dummy.features is not None
        a, basis = dummy.features, known.constants["span"]
        outside = a - (a @ basis) @ basis.T
        begin, end = self.fade
        strength = ((progress - begin) / (end - begin)).clamp(0, 1)
        size = a.detach().square().sum().clamp_min(torch.finfo(a.dtype).tiny)
        return self.weight * strength * outside.square().sum() / size


@dataclass(frozen=True, kw_only=True)
class SpanImages:
    """x = z V^T: images inside the exact span of the private ones. z: (N, N)."""

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
    """Add the span to an attack: as the images' own space where it is exact, as a prior where it is not."""

    weight: float = 3.0
    margin: float = 0.3
    """The prior keeps N (1 + margin) directions: features move a little while the client trains."""
    fade: tuple[float, float] = (0.1, 0.3)
    lr: float = 1.0
    unmixing: bool = True

    def __call__(self, attack: Attack, known: Known) -> tuple[Attack, Known, Mapping[str, object]]:
        if known.feature_layer is None:
            return attack, known, {"span": "not used: the model has no fully connected layer on image vectors"}
        target = known.split(known.constants.get("target", known.delta))[f"{known.feature_layer}.weight"]
        _, sizes, rows = torch.linalg.svd(target.double(), full_matrices=False)
        exact = (
            len(sizes) > known.n and sees_raw_image(known) and float(sizes[known.n] / sizes[known.n - 1]) < EXACT_GAP
        )
        rank = min(known.n if exact else round(known.n * (1 + self.margin)), len(sizes))
        known = replace(known, constants={**known.constants, "span": rows[:rank].T.to(known.w0).contiguous()})
        if exact:
            return (
                self._inside(attack, known),
                known,
                {"span": f"exact, rank {rank}, in the update of {known.feature_layer}"},
            )
        tail = float(sizes[rank:].square().sum() / sizes.square().sum())
        weight = self.weight * min(1.0, TRUSTED_TAIL / max(tail, 1e-30))
        prior = FeatureSpan(weight=weight, fade=self.fade)
        note = f"prior of weight {weight:.3g}, rank {rank}, {100 * tail:.2g} % of {known.feature_layer} outside"
        return replace(attack, priors=(*attack.priors, prior)), known, {"span": note}

    def _inside(self, attack: Attack, known: Known) -> Attack:
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


def sees_raw_image(known: Known) -> bool:
    """Whether the first fully connected layer's input is the flattened image itself."""
    x = torch.rand(2, *known.shape, dtype=known.w0.dtype, device=known.w0.device)
    with torch.no_grad():
        torch.func.functional_call(known.module, {**known.split(known.w0), **known.buffers}, (x,))
    features = known.tape.pop("features")
    return features.numel() == x.numel() and bool(torch.equal(features.flatten(1), x.flatten(1)))
