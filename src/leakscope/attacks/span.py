"""The span of the private features: what the first fully connected layer's update gives away for any number of steps.

Its update is a sum of outer products, dW = sum_tau sum_i delta_i(tau) a_i(tau)^T, so the private features a_i lie in
its row space: exactly where the layer sees the raw image (which never changes), to 1-2 % behind convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakscope.attacks.known import Dummy, Known, Variable, Variables

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack


@dataclass(frozen=True, kw_only=True)
class FeatureSpan:
    """R_span = sum_i |a_i - V V^T a_i|^2 / sum_i |a_i|^2 for the dummy features a_i, faded in over `fade`.

    V (F, k): the top right singular vectors of dW. From the first iteration on it would hold noise in place.
    """

    weight: float = 1.0
    fade: tuple[float, float] = (0.05, 0.15)

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
    """x = z V^T: images inside the span of the private ones, where the first layer sees the raw image. z: (N, k)."""

    lr: float = 1.0

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        start = torch.randn(known.n, known.constants["span"].shape[1], generator=generator)
        return {"z": Variable(start.to(known.w0), self.lr)}

    def decode(self, v: Variables, known: Known) -> Tensor:
        return (v["z"] @ known.constants["span"].T).view(known.n, *known.shape)


@dataclass(frozen=True, kw_only=True)
class SoftBox:
    """weight * mean of the squared way out of the box, for images that cannot be clamped."""

    weight: float = 0.1

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        low, high = known.normalisation.box(x)
        return self.weight * (torch.relu(low - x) + torch.relu(x - high)).square().mean()


@dataclass(frozen=True, kw_only=True)
class FollowSpan:
    """Add the span to an attack: as the images' own space where it is exact, as a prior elsewhere."""

    weight: float = 1.0
    margin: float = 0.1
    fade: tuple[float, float] = (0.05, 0.15)
    lr: float = 1.0

    def __call__(self, attack: Attack, known: Known) -> tuple[Attack, Known, Mapping[str, object]]:
        if known.feature_layer is None:
            return (
                attack,
                known,
                {"span": "not used: the model has no fully connected layer on image vectors"},
            )
        dW = known.split(known.delta)[f"{known.feature_layer}.weight"]
        _, _, rows = torch.linalg.svd(dW.double(), full_matrices=False)
        exact = sees_raw_image(known)
        rank = known.n if exact else round(known.n * (1 + self.margin))
        basis = rows[:rank].T.to(known.w0).contiguous()
        known = replace(known, constants={**known.constants, "span": basis})
        note = {"span": f"rank {rank} of {known.feature_layer}, {'exact' if exact else 'as a prior'}"}
        if exact:
            attack = replace(attack, images=SpanImages(lr=self.lr), priors=(*attack.priors, SoftBox()))
            return attack, known, note
        return (
            replace(attack, priors=(*attack.priors, FeatureSpan(weight=self.weight, fade=self.fade))),
            known,
            note,
        )


def sees_raw_image(known: Known) -> bool:
    """Whether the first fully connected layer's input is the flattened image itself."""
    x = torch.rand(2, *known.shape, dtype=known.w0.dtype, device=known.w0.device)
    with torch.no_grad():
        torch.func.functional_call(known.module, {**known.split(known.w0), **known.buffers}, (x,))
    features = known.tape.pop("features")
    return features.numel() == x.numel() and bool(torch.equal(features.flatten(1), x.flatten(1)))
