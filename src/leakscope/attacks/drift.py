"""Features drift while the client trains; what the drift adds to the update can be worked out and taken away.

With a_i the private features at the mid-model w0 - delta/2, and a_i(tau) those at step tau, the update of the layer is

    dW = sum_i c_i a_i^T + D,    c_i = sum_tau delta_i(tau),    D = sum_tau sum_i delta_i(tau) (a_i(tau) - a_i)^T.

Only the first sum has its rows in span{a_i}. D follows from a client that is simulated on the current reconstruction;
it need not be exact to leave a span that is several times closer to the private features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.attacks.composition import Composition, Moment, Renewed
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.span import FeatureSpan, features, layer_update, row_space
from leakscope.types import stream

TWINS = 0.98
"""Correlation of two dummy images from which on they are taken for one."""
STEPS = 20
"""Full-batch steps of the simulated client, at most: the cost does not depend on the client's own number of steps."""


@dataclass(frozen=True, kw_only=True)
class Straighten:
    """Finds the span of a FeatureSpan again, at the parts of the iterations in `at`, from the update without its drift.

    The first `part_twins` times it also parts twins: two dummy images on one private image leave another one out.
    """

    at: tuple[float, ...] = (0.25, 0.4, 0.55, 0.7, 0.85)
    part_twins: int = 3
    times: Tensor | None = field(default=None, repr=False)
    """(): how often it was called."""

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed:  # noqa: ARG002
        """Images (N, C, H, W) that begin anew, if any, and the new span."""
        x = v["x"]
        labels = known.labels if known.labels is not None else torch.softmax(v["y"], dim=1)
        straight = layer_update(known) - drift(known, x, labels)
        priors = tuple(
            replace(prior, span=row_space(straight, prior.span.shape[1])[0].to(known.w0))
            if isinstance(prior, FeatureSpan)
            else prior
            for prior in attack.priors
        )
        times = 1 + (known.w0.new_zeros((), dtype=torch.long) if self.times is None else self.times)
        renewed = replace(attack, priors=priors, renewal=replace(self, times=times))
        again = twins(x) if int(times) <= self.part_twins else []
        if not again:
            return Renewed(renewed)
        fresh = torch.randn(x.shape, generator=stream(int(times), "twins")).to(x)
        low, high = known.normalisation.box(x)
        x = x.clone()
        x[again] = torch.maximum(torch.minimum(fresh[again], high), low)
        return Renewed(renewed, {"x": x})


def twins(x: Tensor) -> list[int]:
    """The second of every two images (N, C, H, W) that differ from the mean image in nearly the same way."""
    centred = (x - x.mean(0)).flatten(1)
    alike = functional.normalize(centred) @ functional.normalize(centred).T
    return [i for i in range(len(x)) if bool((alike[i, :i] > TWINS).any())]


def drift(known: Known, x: Tensor, y: Tensor) -> Tensor:
    """D (m, F) of a client that trains on x (N, C, H, W) with labels y by S full-batch steps of rate lr T / S."""
    steps = min(STEPS, known.training.epochs)
    rate = known.training.lr * known.training.steps(known.n) / steps
    middle = features(known, known.w0 - known.delta / 2, x).detach()
    w, total = known.w0, torch.zeros_like(layer_update(known))
    for _ in range(steps):
        w = w.detach().requires_grad_()
        with torch.enable_grad(), outputs(known) as seen:
            logits = torch.func.functional_call(known.module, {**known.split(w), **known.buffers}, (x,))
            at_layer, g = torch.autograd.grad(functional.cross_entropy(logits, y), (seen["output"], w))
        total.addmm_(at_layer.T, known.tape.pop("features").detach() - middle, alpha=rate)
        w = w - rate * g
    return total


@contextmanager
def outputs(known: Known) -> Iterator[dict[str, Tensor]]:
    """Catches what the layer puts out, in whose gradient delta_i(tau) stands."""
    seen: dict[str, Tensor] = {}
    layer = known.module.get_submodule(str(known.feature_layer))
    handle = layer.register_forward_hook(lambda _, __, output: seen.update(output=output))
    try:
        yield seen
    finally:
        handle.remove()
