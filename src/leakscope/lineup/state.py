"""A model at one state of the client's path, asked about single images: losses, slopes along the update, gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.types import Weights

CHUNK = 50
"""Images that go through the model at once."""


@dataclass(frozen=True)
class State:
    """Module, trainable weights and buffers of a model whose images do not see each other."""

    module: nn.Module
    weights: Weights
    buffers: Weights

    @property
    def device(self) -> torch.device:
        return next(iter(self.weights.values())).device

    def losses(self, weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        """(n,) cross-entropies of normalised images (n, C, H, W) of classes y (n,), with some weights replaced."""
        named = {**self.weights, **weights, **self.buffers}
        logits: Tensor = torch.func.functional_call(self.module, named, (x,))
        return functional.cross_entropy(logits, y, reduction="none")

    def label_slopes(self, direction: Weights, x: Tensor) -> Tensor:
        """(n, classes): <g_i, direction> of every image for every label y: <softmax(z) - e_y, dz> with logits z.

        dz, the derivative of the logits along the direction, is that of <J^T u, direction> by u: backward twice.
        """
        leaves = {name: self.weights[name].detach().requires_grad_() for name in direction}
        slopes = []
        for images in torch.split(x, CHUNK):
            with torch.enable_grad():
                z: Tensor = torch.func.functional_call(
                    self.module, {**self.weights, **leaves, **self.buffers}, (images,)
                )
                u = torch.zeros_like(z, requires_grad=True)
                pulled = torch.autograd.grad(z, list(leaves.values()), u, create_graph=True, materialize_grads=True)
                along = torch.stack([(g * direction[name]).sum() for name, g in zip(leaves, pulled, strict=True)]).sum()
            (change,) = torch.autograd.grad(along, u)
            slopes.append((z.detach().softmax(1) * change).sum(1, keepdim=True) - change)
        return torch.cat(slopes)

    def single_gradients(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """(n, weights): every image's gradient of one tensor."""
        weight = self.weights[name]

        def loss(value: Tensor, image: Tensor, label: Tensor) -> Tensor:
            return self.losses({name: value}, image[None], label[None]).sum()

        try:
            batched = torch.func.vmap(torch.func.grad(loss), (None, 0, 0), chunk_size=CHUNK)
            return batched(weight, x, y).flatten(1)  # type: ignore[no-any-return]
        except RuntimeError:  # an operation that cannot be batched
            return torch.stack(
                [self._gradient(name, *pair) for pair in zip(torch.split(x, 1), torch.split(y, 1), strict=True)]
            )

    def _gradient(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """(weights,): the gradient of one tensor, summed over the images."""
        leaf = self.weights[name].detach().requires_grad_()
        with torch.enable_grad():
            loss = self.losses({name: leaf}, x, y).sum()
        (found,) = torch.autograd.grad(loss, leaf, allow_unused=True, materialize_grads=True)
        return found.flatten()


@dataclass(frozen=True)
class View:
    """Images as a state sees them."""

    state: State
    x: Tensor
    """(n, C, H, W), normalised."""
    y: Tensor
    """(n,) classes, or (n, classes) probabilities."""
