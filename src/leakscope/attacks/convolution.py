"""A convolution with a faster second derivative, and a faster one over few channels.

torch computes one part of the second derivative, the weights' gradient of the backward pass, as a convolution with
kernels as large as the images: a fifth of the time of an attack's step. Here it is the ordinary weight gradient, which
it equals. And a convolution that sees the one channel of a grey image is slow in the libraries of a CPU: as a product
of matrices it takes a fifth of the time, and may lay out its channels as the next layer likes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

aten = torch.ops.aten
FEW = 25
"""Weights of an output channel up to which a product of matrices is faster on a CPU: one channel, kernels up to 5x5."""


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


@dataclass(frozen=True)
class FewChannels(Geometry):
    """The same with steps of one over a few channels, as products with the patches that the kernel sees."""

    innermost: bool = False
    """Whether the channels of y lie innermost in memory."""

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        seen, w = self._patches(x, w), w.flatten(1)
        k = seen.flatten(3).flatten(1, 2)
        y = torch.matmul(k.transpose(1, 2), w.t()).transpose(1, 2) if self.innermost else torch.matmul(w, k)
        y = y.view(*y.shape[:2], *seen.shape[3:])
        return y if b is None else torch.add(y, b.view(-1, 1, 1))

    def backward(self, slope: Tensor, x: Tensor, w: Tensor, mask: tuple[bool, bool, bool]) -> tuple[Tensor, ...]:
        ways = (self._to_x, self._to_w, lambda slope, *_: slope.sum((0, 2, 3)))
        return tuple(way(slope, x, w) if wanted else None for way, wanted in zip(ways, mask, strict=True))  # type: ignore[misc]

    def _to_x(self, slope: Tensor, x: Tensor, w: Tensor) -> Tensor:
        """Every place of the kernel gives a copy of the image, moved by that place; x is their sum."""
        shape = (x.shape[1], w.shape[2] * w.shape[3], *slope.shape[2:])
        copies = torch.matmul(w.flatten(1).t(), slope.flatten(2)).view(len(slope), *shape)
        (up, left), (tall, wide) = self.padding, (x.shape[2] + 2 * self.padding[0], x.shape[3] + 2 * self.padding[1])
        moved = [
            functional.pad(copy, (j, wide - j - shape[3], i, tall - i - shape[2]))
            for copy, (i, j) in zip(copies.unbind(2), self._places(w), strict=True)
        ]
        return sum(moved[1:], moved[0])[..., up : tall - up, left : wide - left]

    def _to_w(self, slope: Tensor, x: Tensor, w: Tensor) -> Tensor:
        seen = self._patches(x, w).flatten(3).flatten(1, 2)
        return torch.matmul(slope.flatten(2), seen.transpose(1, 2)).sum(0).view(w.shape)

    def _patches(self, x: Tensor, w: Tensor) -> Tensor:
        """(N, C, K, H', W'): at every place of the kernel, the image as it is seen from there."""
        (up, left), (down, right) = self.padding, self.dilation
        x = functional.pad(x, (left, left, up, up))
        tall, wide = x.shape[2] - down * (w.shape[2] - 1), x.shape[3] - right * (w.shape[3] - 1)
        return torch.stack([x[..., i : i + tall, j : j + wide] for i, j in self._places(w)], 2)

    def _places(self, w: Tensor) -> list[tuple[int, int]]:
        return [(i * self.dilation[0], j * self.dilation[1]) for i in range(w.shape[2]) for j in range(w.shape[3])]


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


def speed_up_convolutions(module: nn.Module, shape: tuple[int, int, int]) -> bool:
    """Let the convolutions of a model be computed as above, in place -> whether channels are to lie innermost.

    That is the faster way on a CPU, by a tenth and more, but not every model takes it.
    """
    layers = [part for part in module.modules() if type(part) is nn.Conv2d and _is_plain(part)]
    if not layers:
        return False
    for innermost in (layers[0].weight.device.type == "cpu", False):
        for layer in layers:
            layer._conv_forward = partial(_convolve, geometry_of(layer, innermost=innermost))  # type: ignore[method-assign]
        if innermost and _runs(module, torch.zeros(2, *shape).to(layers[0].weight)):
            return True
    return False


def _is_plain(layer: nn.Conv2d) -> bool:
    return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _runs(module: nn.Module, x: Tensor) -> bool:
    try:
        with torch.no_grad():
            module(x.contiguous(memory_format=torch.channels_last))
    except RuntimeError:  # `view` where only `reshape` would do
        return False
    return True


def geometry_of(layer: nn.Conv2d, *, innermost: bool) -> Geometry:
    """How a layer is computed fastest."""
    where = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
    few = layer.stride == (1, 1) and layer.groups == 1 and layer.weight[0].numel() <= FEW
    if few and layer.weight.device.type == "cpu":
        return FewChannels(**where, innermost=innermost)  # type: ignore[arg-type]
    return Geometry(**where)  # type: ignore[arg-type]


def _convolve(geometry: Geometry, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    out: Tensor = _apply(Convolution, x, w, b, geometry)
    return out


def _apply(function: type[torch.autograd.Function], *inputs: object) -> Any:
    return function.apply(*inputs)  # type: ignore[no-untyped-call]
