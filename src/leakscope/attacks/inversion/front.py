"""The net up to its first fully connected layer, as it stood on average while the client trained."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from leakscope.attacks.known import Known
from leakscope.attacks.span import features
from leakscope.types import Weights

STEPS = 20
"""Full-batch steps of the simulated client, at most."""


@dataclass(frozen=True)
class Front:
    """f: images (k, C, H, W) in [0, 1] -> features (k, F) at one state of the weights, each image by itself."""

    known: Known
    """With batch norm in eval mode."""
    weights: Weights
    cells: tuple[int, int, int]
    """(c, h, w): how the features lie in the last feature map; (F, 1, 1) where they are none."""

    @classmethod
    def of(cls, known: Known) -> Front:
        """At the mean of the states w_0 .. w_T-1 in which the client took its T steps, if they were equally long."""
        still = replace(known, module=at_rest(known.module), buffers={**known.buffers, **statistics(known)})
        steps = known.training.steps(known.n)
        return cls(still, {}, _cells(still)).at((steps - 1) / (2 * steps))

    def at(self, place: float) -> Front:
        """The same at w0 - place * delta."""
        named = self.known.split(self.known.w0 - place * self.known.delta)
        return replace(self, weights={name: self._laid_out(value) for name, value in named.items()})

    def __call__(self, images: Tensor) -> Tensor:
        x = self._laid_out(self.known.normalisation.apply(images))
        torch.func.functional_call(self.known.module, {**self.weights, **self.known.buffers}, (x,))
        return self.known.tape.pop("features")

    def _laid_out(self, value: Tensor) -> Tensor:
        innermost = self.known.channels_last and value.dim() == 4
        return value.contiguous(memory_format=torch.channels_last) if innermost else value


def at_rest(module: nn.Module) -> nn.Module:
    """A copy that uses the statistics it is given, not those of the batch."""
    module = copy.deepcopy(module)
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.eval()
    return module


def norms(known: Known) -> dict[str, _BatchNorm]:
    """The batch-norm layers that used the statistics of their batch while the client trained."""
    if known.training.mode == "eval":
        return {}
    return {name: part for name, part in known.module.named_modules() if isinstance(part, _BatchNorm)}


def statistics(known: Known) -> dict[str, Tensor]:
    """Mean and variance of the client's batches, of every batch-norm layer in train mode whose statistics were sent.

    r_T = (1 - m)^T r_0 + m sum_tau (1 - m)^(T - tau) s_tau, so the weighted mean of the s_tau follows from r_0 and r_T.
    """
    found = {}
    for name, norm in norms(known).items():
        for kind in ("running_mean", "running_var"):
            key = f"{name}.{kind}"
            if key in known.buffers and key in known.buffers_after:
                before, after = known.buffers[key], known.buffers_after[key]
                kept = _kept(norm, known, name)
                found[key] = (after - kept * before) / (1 - kept)
    return found


def unsent(known: Known) -> list[str]:
    """The batch-norm layers of which it is not known what they made of the client's images."""
    sent = statistics(known)
    return [name for name in norms(known) if f"{name}.running_mean" not in sent]


def _kept(norm: _BatchNorm, known: Known, name: str) -> float:
    """How much of the statistics before training is left in those after it."""
    steps = known.training.steps(known.n)
    if norm.momentum is not None:
        return float((1 - norm.momentum) ** steps)
    before = known.buffers.get(f"{name}.num_batches_tracked")  # momentum None: the plain mean over all batches ever
    count = 0.0 if before is None else float(before)
    return count / (count + steps)


def mean_place(known: Known, images: Tensor, labels: Tensor) -> float:
    """Where on the line from w0 (0) to wT (1) the client's steps began on average, as simulated on images in [0, 1].

    The simulated client need not go as far as the real one: what counts is when it covers which part of its way.
    """
    total, x = known.training.steps(known.n), known.normalisation.apply(images)
    steps = min(STEPS, total)
    rate, way = known.training.lr * total / steps, known.delta / known.delta.square().sum()
    w, places = known.w0, []
    for _ in range(steps):
        places.append(float((known.w0 - w) @ way))
        w = w.detach().requires_grad_()
        with torch.enable_grad():
            logits = torch.func.functional_call(known.module, {**known.split(w), **known.buffers}, (x,))
            (slope,) = torch.autograd.grad(functional.cross_entropy(logits, labels), w)
        w = w.detach() - rate * slope
    known.tape.pop("features", None)
    end = float((known.w0 - w) @ way)
    return sum(places) / steps / end if end > 0 else (steps - 1) / (2 * steps)


def _cells(known: Known) -> tuple[int, int, int]:
    """The shape of the last map that, laid out in a row, is the feature vector."""
    maps: list[Tensor] = []

    def note(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor) and output.dim() == 4:
            maps.append(output)

    handles = [part.register_forward_hook(note) for part in known.module.modules()]
    try:
        with torch.no_grad():
            x = torch.linspace(-1, 1, 2 * known.shape[0] * known.shape[1] * known.shape[2])
            a = features(known, known.w0, x.view(2, *known.shape).to(known.w0))
    finally:
        for handle in handles:
            handle.remove()
    for found in reversed(maps):
        if found.numel() == a.numel() and torch.equal(found.flatten(1), a):
            return found.shape[1], found.shape[2], found.shape[3]
    return a.shape[1], 1, 1
