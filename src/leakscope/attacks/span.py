"""The span of the private features: what the first fully connected layer gives away for any number of local steps.

Its update is a sum of outer products, dW = sum_tau sum_i delta_i(tau) a_i(tau)^T, so the private features a_i lie in
its row space: exactly where the layer sees the raw image, which never changes, and to about 1 % behind convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.attacks.known import Dummy, Known, Variable, Variables

EXACT_GAP = 0.05
"""Ratio of two singular values in a row below which the span of raw images is taken to end between them."""


def layer_update(known: Known) -> Tensor:
    """dW (m, F) of the first fully connected layer."""
    return known.split(known.delta)[f"{known.feature_layer}.weight"]


def row_space(dW: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The top right singular vectors (F, rank), and all singular values; on the CPU: not all devices have doubles."""
    _, sizes, rows = torch.linalg.svd(dW.cpu().double(), full_matrices=False)
    return rows[:rank].T.contiguous(), sizes


def features(known: Known, w: Tensor, x: Tensor) -> Tensor:
    """a (N, F): what flows into the first fully connected layer at the weights w."""
    torch.func.functional_call(known.module, {**known.split(w), **known.buffers}, (x,))
    return known.tape.pop("features")


@dataclass(frozen=True, kw_only=True)
class FeatureSpan:
    """R_span = sum_i |a_i - V V^T a_i|^2 / sum_i |a_i|^2.

    a_i are the dummy features at the mid-model w0 - delta/2, whose private features are nearest to the span, and not at
    the state of the surrogate: a free control point would bend them into any span. The weight grows between the two
    parts of the iterations in `fade`: from the start it would hold noise in place, and the span is better known later.
    """

    span: Tensor = field(repr=False)
    """V (F, k)."""
    weight: float = 80.0
    fade: tuple[float, float] = (0.1, 1.0)

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        a = features(known, known.w0 - known.delta / 2, x)
        outside = a - (a @ self.span) @ self.span.T
        begin, end = self.fade
        strength = ((progress - begin) / (end - begin)).clamp(0, 1)
        size = a.detach().square().sum().clamp_min(torch.finfo(a.dtype).tiny)
        return self.weight * strength * outside.square().sum() / size


@dataclass(frozen=True, kw_only=True)
class SpanImages:
    """x = z V^T: images inside the exact span of the private ones. z: (N, r)."""

    span: Tensor = field(repr=False)
    """V (D, r)."""
    lr: float = 1.0

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:
        start = torch.randn(known.n, self.span.shape[1], generator=generator)
        return {"z": Variable(start.to(known.w0), self.lr)}

    def decode(self, v: Variables, known: Known) -> Tensor:
        return (v["z"] @ self.span.T).view(known.n, *known.shape)


@dataclass(frozen=True, kw_only=True)
class SoftBox:
    """weight * mean squared way out of the box, for images that cannot be clamped."""

    weight: float = 0.1

    def __call__(self, v: Variables, x: Tensor, dummy: Dummy, known: Known, progress: Tensor) -> Tensor:  # noqa: ARG002
        low, high = known.normalisation.box(x)
        return self.weight * (torch.relu(low - x) + torch.relu(x - high)).square().mean()


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
