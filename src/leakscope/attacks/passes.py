"""Once forward and once back through the net, with all dummy images at a time or some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakscope.attacks.calculus import Calculus, Pull, Tensors
from leakscope.attacks.known import Known
from leakscope.types import Weights

Net = Callable[..., Tensors]
"""(x, y where it is learned, *weights where they are) -> (*update, loss, features where there are any)."""


@dataclass(frozen=True)
class Passes:
    """How one state goes through the net."""

    known: Known
    calculus: Calculus
    chunk: int | None = None

    def linearise(self, inputs: Tensors, weights: Weights, *, learned: bool) -> tuple[Tensors, Pull]:
        """What the net gives for all dummy images, and the way back to the inputs and, if learned, to the weights.

        inputs: x (N, C, H, W), and y (N, classes) where labels are learned.
        """
        moving = tuple(weights.values()) if learned else ()
        n, size = self.known.n, self.chunk or self.known.n
        parts = [slice(start, start + size) for start in range(0, n, size)]
        nets = [self._net(part, weights) for part in parts]
        if len(parts) == 1:
            return self.calculus.linearise(nets[0], (*inputs, *moving))
        outputs = self._forward(nets, parts, inputs, moving)

        def pull(slopes: Tensors) -> Tensors:
            return self._back(nets, parts, inputs, moving, slopes)

        return outputs, pull

    def _net(self, part: slice, weights: Weights) -> Net:
        known = self.known

        def net(x: Tensor, *rest: Tensor) -> Tensors:
            y, pieces = (rest[0], rest[1:]) if known.labels is None else (known.labels[part], rest)
            state = dict(zip(weights, pieces, strict=True)) if pieces else weights
            dummy = known.gradient(state, x, y, self.calculus)
            return (*dummy.update, dummy.loss, *(() if dummy.features is None else (dummy.features,)))

        return net

    def _forward(self, nets: list[Net], parts: list[slice], inputs: Tensors, moving: Tensors) -> Tensors:
        """Update and loss are sums over the images, features are not. Nothing is kept for the way back."""
        sums = len(self.known.sizes) + 1
        total: list[Tensor] = []
        features: list[Tensor] = []
        with torch.no_grad():
            for net, part in zip(nets, parts, strict=True):
                found = net(*(value[part] for value in inputs), *moving)
                total = add(total, found[:sums])
                features += found[sums:]
        return (*total, *([torch.cat(features)] if features else []))

    def _back(self, nets: list[Net], parts: list[slice], inputs: Tensors, moving: Tensors, slopes: Tensors) -> Tensors:
        sums = len(self.known.sizes) + 1
        images: list[Tensors] = []
        total: list[Tensor] = []
        for net, part in zip(nets, parts, strict=True):
            _, pull = self.calculus.linearise(net, (*(value[part] for value in inputs), *moving))
            found = pull((*slopes[:sums], *(slope[part] for slope in slopes[sums:])))
            images.append(found[: len(inputs)])
            total = add(total, found[len(inputs) :])
        return (*(torch.cat(pieces) for pieces in zip(*images, strict=True)), *total)


def add(total: list[Tensor], more: Tensors) -> list[Tensor]:
    """total += more, in place; an empty total takes over the tensors."""
    if not total:
        return list(more)
    for mine, other in zip(total, more, strict=True):
        mine.add_(other)
    return total
