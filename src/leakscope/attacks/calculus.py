"""Two ways to differentiate the same functions: autograd is faster eagerly, torch.func can be compiled and batched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]
Pull = Callable[[Tensors], Tensors]
"""Gradients with respect to the outputs of a function -> gradients with respect to its inputs."""


class Calculus(Protocol):
    """First derivatives that can be differentiated again."""

    def linearise(self, f: Callable[..., Tensors], inputs: Tensors) -> tuple[Tensors, Pull]:
        """f(*inputs), and the map that pulls gradients back through f; the map can be used once."""

    def gradient(self, f: Callable[..., tuple[Tensor, Any]], inputs: Tensors) -> tuple[Tensors, Any]:
        """For f(*inputs) = (scalar, extra): the gradient of the scalar, itself differentiable, and the extra."""


@dataclass(frozen=True)
class Autograd:
    """torch.autograd on leaves that share their memory with the inputs. Inputs that play no part get zeros."""

    def linearise(self, f: Callable[..., Tensors], inputs: Tensors) -> tuple[Tensors, Pull]:
        leaves = [value.detach().requires_grad_() for value in inputs]
        with torch.enable_grad():
            outputs = f(*leaves)

        def pull(slopes: Tensors) -> Tensors:
            live = [pair for pair in zip(outputs, slopes, strict=True) if pair[0].requires_grad]
            if not live:
                return tuple(torch.zeros_like(leaf) for leaf in leaves)
            ends, given = zip(*live, strict=True)
            return torch.autograd.grad(ends, leaves, given, allow_unused=True, materialize_grads=True)

        return tuple(value.detach() for value in outputs), pull

    def gradient(self, f: Callable[..., tuple[Tensor, Any]], inputs: Tensors) -> tuple[Tensors, Any]:
        again = torch.is_grad_enabled()
        leaves = [value if value.requires_grad else value.detach().requires_grad_() for value in inputs]
        with torch.enable_grad():
            value, extra = f(*leaves)
        found = torch.autograd.grad(value, leaves, create_graph=again, allow_unused=True, materialize_grads=True)
        return found, extra


AUTOGRAD = Autograd()


@dataclass(frozen=True)
class Functional:
    """torch.func throughout, as torch.compile and vmap need it."""

    def linearise(self, f: Callable[..., Tensors], inputs: Tensors) -> tuple[Tensors, Pull]:
        return torch.func.vjp(f, *inputs)  # type: ignore[return-value]

    def gradient(self, f: Callable[..., tuple[Tensor, Any]], inputs: Tensors) -> tuple[Tensors, Any]:
        found, extra = torch.func.grad(f, argnums=tuple(range(len(inputs))), has_aux=True)(*inputs)
        return found, extra
