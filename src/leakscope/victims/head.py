"""The final linear layer of a victim, what flows into it, and what the rest of the net makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakscope.errors import InputError, refusal, unknown
from leakscope.types import Weights
from leakscope.victims import Victim

Embedding = Callable[[tuple[Tensor, ...]], Tensor | None]


@dataclass(frozen=True)
class Head:
    """A linear layer of a victim: logits = W h + b for the last one."""

    name: str
    layer: nn.Linear

    @property
    def weight(self) -> str:
        """The name of W (outputs, features) among the victim's weights."""
        return f"{self.name}.weight" if self.name else "weight"

    @property
    def bias(self) -> str | None:
        """The name of b (outputs,), or None where the layer has none that moves."""
        bias: Tensor | None = self.layer.bias
        return None if bias is None or not bias.requires_grad else f"{self.name}.bias" if self.name else "bias"


def find_head(victim: Victim) -> Head:
    """The linear layer that a forward pass runs through last; it must give one value per class."""
    order: list[Head] = []

    def noting(head: Head) -> Embedding:
        return lambda _: order.append(head)

    with contextlib.ExitStack() as watched:
        for head in _linear(victim):
            watched.enter_context(_intercept(head, noting(head)))
        with torch.no_grad():
            victim.call(victim.weights(), victim.buffers(), blank(victim, victim.weights()))
    if not order or order[-1].layer.out_features != victim.classes or order[-1].weight not in victim.sizes:
        found = f"{order[-1].name!r} with {order[-1].layer.out_features} outputs" if order else "no linear layer"
        found = f"model {victim.name!r} does not end in a linear layer of {victim.classes} outputs: {found}"
        why = "label recovery and Soteria read the layer that turns features into logits"
        raise refusal(found, why=why, fix="choose a model whose classifier is an nn.Linear with a weight of its own")
    return order[-1]


def find_layer(victim: Victim, name: str) -> Head:
    """The linear layer of that name."""
    linear = {head.name: head for head in _linear(victim)}
    if name not in linear:
        raise InputError(unknown(f"linear layer of {victim.name}", name, linear))
    return linear[name]


def _linear(victim: Victim) -> list[Head]:
    return [Head(name, part) for name, part in victim.module.named_modules() if isinstance(part, nn.Linear)]


def embeddings(victim: Victim, head: Head, weights: Weights, buffers: Weights, x: Tensor) -> Tensor:
    """What flows into the layer: (N, C, H, W) -> (N, features). Differentiable in x and the weights."""
    seen: list[Tensor] = []
    with _intercept(head, lambda inputs: seen.append(inputs[0])):
        victim.call(weights, buffers, x)
    if not seen or seen[-1].ndim != 2:
        shape = tuple(seen[-1].shape) if seen else "nothing"
        found = f"layer {head.name!r} of {victim.name!r} is given {shape}, not one feature vector per image"
        raise refusal(found, fix="name a layer that comes after flattening or pooling")
    return seen[-1]


def logits_of(victim: Victim, head: Head, weights: Weights, buffers: Weights, h: Tensor) -> Tensor:
    """Logits (N, classes) for given inputs (N, features) of the layer, with all the net does after it."""
    x = blank(victim, weights).expand(len(h), *victim.shape)
    with _intercept(head, lambda _: h):
        return victim.call(weights, buffers, x)


def blank(victim: Victim, weights: Weights) -> Tensor:
    """One empty image (1, C, H, W) of the type of the weights, where they are."""
    like = next(iter(weights.values()))
    return torch.zeros(1, *victim.shape, dtype=like.dtype, device=like.device)


@contextlib.contextmanager
def _intercept(head: Head, see: Embedding) -> Iterator[None]:
    handle = head.layer.register_forward_pre_hook(lambda _, inputs: see(inputs))
    try:
        yield
    finally:
        handle.remove()
