"""A convolution with a faster second derivative.

torch computes one part of it, the weights' gradient of the backward pass, as a convolution with kernels as large as the
images: a fifth of the time of an attack's step. Here it is the ordinary weight gradient, which it equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

aten = torch.ops.aten


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over an image."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """y = w * x + b."""
        where = (self.stride, self.padding, self.dilation, False, (0,) * len(self.padding), self.groups)
        out: Tensor = aten.convolution(x, w, b, *where)
        return out

    def backward(self, slope: Tensor, x: Tensor, w: Tensor, mask: tuple[bool, bool, bool]) -> tuple[Tensor, ...]:
        """Gradients of <y, slope> with respect to x, w and b, None where the mask is off."""
        where = (self.stride, self.padding, self.dilation, False, (0,) * len(self.padding), self.groups)
        found: tuple[Tensor, ...] = aten.convolution_backward(slope, x, w, [len(w)], *where, mask)
        return found


class Convolution(torch.autograd.Function):
    """y = w * x + b."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor | None, geometry: Geometry) -> Tensor:
        return geometry.forward(x, w, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, w, _, ctx.geometry = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        return (*_apply(ConvolutionBackward, slopes[0], x, w, ctx.geometry, tuple(ctx.needs_input_grad[:3])), None)


class ConvolutionBackward(torch.autograd.Function):
    """(slope, x, w) -> gradients of <w * x + b, slope> with respect to x, w and b, each linear in two of the three."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        slope: Tensor, x: Tensor, w: Tensor, geometry: Geometry, mask: tuple[bool, bool, bool]
    ) -> tuple[Tensor, ...]:
        return geometry.backward(slope, x, w, mask)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        slope, x, w, ctx.geometry, _ = inputs
        ctx.save_for_backward(slope, x, w)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        slope, x, w = ctx.saved_tensors
        by_x, by_w, by_b = slopes
        geometry, wanted = ctx.geometry, ctx.needs_input_grad
        to_slope = to_x = to_w = None
        if by_x is not None:
            to_slope = geometry.forward(by_x, w, None) if wanted[0] else None
            to_w = geometry.backward(slope, by_x, w, (False, True, False))[1] if wanted[2] else None
        if by_w is not None:
            to_slope = _sum(to_slope, geometry.forward(x, by_w, None) if wanted[0] else None)
            to_x = geometry.backward(slope, x, by_w, (True, False, False))[0] if wanted[1] else None
        if by_b is not None:
            to_slope = _sum(to_slope, by_b.view(-1, *(1,) * len(geometry.padding)) if wanted[0] else None)
        return None if to_slope is None else to_slope.expand_as(slope), to_x, to_w, None, None


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def speed_up_convolutions(module: nn.Module) -> None:
    """Let the convolutions of a model use the faster second derivative, in place."""
    for part in module.modules():
        if type(part) is nn.Conv2d and part.padding_mode == "zeros" and not isinstance(part.padding, str):
            geometry = Geometry(part.stride, part.padding, part.dilation, part.groups)
            part._conv_forward = partial(_convolve, geometry)  # type: ignore[method-assign]


def _convolve(geometry: Geometry, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    out: Tensor = _apply(Convolution, x, w, b, geometry)
    return out


def _apply(function: type[torch.autograd.Function], *inputs: object) -> Any:
    return function.apply(*inputs)  # type: ignore[no-untyped-call]
