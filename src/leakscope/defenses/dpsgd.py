"""DP-SGD: every sample's gradient is clipped and noise is added, in every local step."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.client.training import Client, Gradients
from leakscope.defenses.accounting import guarantee, opacus
from leakscope.defenses.base import FINITE, POSITIVE, Checked, changed, noise
from leakscope.errors import Problem, refuse
from leakscope.options import Range
from leakscope.types import LocalTraining, Update, Weights, stream
from leakscope.victims import Victim


@dataclass(frozen=True, kw_only=True)
class DPSGD(Checked):
    """g = (sum_i g_i * min(1, clip / ||g_i||) + N(0, sigma² clip² I)) / B in every step (Abadi et al. 2016).

    Acts inside training, on each step's gradient; the norm runs over all tensors of one sample's gradient,
    which Opacus computes. `epsilon` sets sigma = sqrt(2 ln(1 / delta)) / epsilon as the paper does: a
    constant for one release, without composition or sub-sampling. The epsilon of the whole run, from
    Opacus' accountant, is in the notes. `sigma` gives the noise multiplier directly. `poisson=off` keeps
    the client's shuffled batches, so that sigma = 0 and clip = inf is plain SGD; `poisson=on` draws every
    sample with probability B / N in each step.
    """

    epsilon: Annotated[float | None, POSITIVE] = None
    sigma: Annotated[float | None, FINITE] = None
    clip: Annotated[float, POSITIVE] = 1.0
    delta: Annotated[float, Range("(0, 1)")] = 1e-5
    poisson: bool = False

    def together(self) -> Iterator[Problem]:
        """One strength, and a bound to scale its noise by."""
        if (self.epsilon is None) == (self.sigma is None):
            found = "neither epsilon nor sigma" if self.epsilon is None else "both epsilon and sigma"
            yield Problem(f"dpsgd: {found} given", fix="--defense dpsgd:epsilon=10 or --defense dpsgd:sigma=0.5")
        elif math.isinf(self.clip) and (self.sigma or self.epsilon not in (None, math.inf)):
            why = "the noise is scaled by the clipping bound"
            yield Problem("dpsgd: clip=inf with noise", why, fix="--defense dpsgd:epsilon=10,clip=1")

    @property
    def noise_multiplier(self) -> float:
        """sigma, given or from epsilon: .48 at epsilon = 10 and 4.8e-5 at 1e5, for delta = 1e-5."""
        if self.sigma is not None:
            return self.sigma
        assert self.epsilon is not None
        return math.sqrt(2 * math.log(1 / self.delta)) / self.epsilon

    def check(self, victim: Victim, training: LocalTraining) -> None:
        """Opacus must be there, and must be able to take the model's gradients apart by sample."""
        validator = opacus().validators.ModuleValidator
        module = copy.deepcopy(victim.module).train()
        findings = dict.fromkeys(str(error) for error in validator.validate(module, strict=False))
        refuse(_unsupported(victim, finding) for finding in findings)
        try:
            opacus().GradSampleModule(module)
        except NotImplementedError as error:
            refuse([_unsupported(victim, str(error))])

    def gradients(self, client: Client, *, seed: int) -> Gradients:
        """The private gradient of one step; the noise continues from step to step."""
        module = copy.deepcopy(client.victim.module)
        per_sample = PerSample(module, opacus().GradSampleModule(module), mode=client.training.mode)
        generator = stream(seed, "dp noise")
        std = self.noise_multiplier * self.clip if self.noise_multiplier else 0.0

        def private(_: Victim, weights: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            size = client.training.batch_size if self.poisson else len(x)
            total = clipped_sum(per_sample(weights, buffers, x, y), self.clip)
            return {name: (value + noise(value, std, generator)) / size for name, value in total.items()}

        return private

    def batches(self, client: Client, *, seed: int) -> Iterator[Tensor] | None:
        """Poisson batches, which may be empty, or None for the client's own."""
        return poisson_batches(len(client.batch), client.training, seed=seed) if self.poisson else None

    def annotate(self, update: Update, client: Client) -> Update:
        """Both epsilons, and what the accounted one assumes."""
        n, training = len(client.batch), client.training
        rate, steps = training.batch_size / n, training.steps(n)
        drawn = "as this client does" if self.poisson else "this client's shuffled fixed batches are not covered by it"
        told = guarantee(
            ((self.noise_multiplier, rate, steps),),
            self.delta,
            poisson=self.poisson,
            steps=f"assumes Poisson sampling at rate {rate:g} in each of {steps} steps",
            drawn=f"; {drawn}",
        )
        told["nominal_epsilon"] = self.epsilon if self.epsilon != math.inf else None
        told["clip"] = self.clip if math.isfinite(self.clip) else None
        return changed(update, update.delta, {"dpsgd": told})


class PerSample:
    """Per-sample gradients of the cross-entropy by Opacus' hooks: name -> (B, *shape)."""

    def __init__(self, module: nn.Module, wrapped: nn.Module, *, mode: str) -> None:
        self.module = module
        self.wrapped = wrapped.train()
        if mode == "eval":  # the hooks need their layers in training mode; what has no weights (dropout) need not be
            for part in module.modules():
                if not any(True for _ in part.parameters()):
                    part.eval()

    def __call__(self, weights: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """At other weights; an empty batch gives empty tensors."""
        if not len(x):
            return {name: value.new_zeros(0, *value.shape) for name, value in weights.items()}
        named: dict[str, Any] = dict(self.module.named_parameters())  # Opacus adds `grad_sample` to each
        for name, value in weights.items():
            named[name].data = value.detach().clone()
        for name, buffer in self.module.named_buffers():
            buffer.data = buffers[name].detach().clone()
        # without an input that needs a gradient, torch warns that the first layer's hook sees none
        loss = functional.cross_entropy(self.wrapped(x.detach().requires_grad_()), y)
        torch.autograd.backward(loss)
        found = {name: named[name].grad_sample.detach() for name in weights}
        self.wrapped.zero_grad(set_to_none=True)
        return found


def clipped_sum(samples: Weights, bound: float) -> dict[str, Tensor]:
    """sum_i g_i * min(1, bound / ||g_i||), the norm over all tensors of a sample."""
    norms = torch.stack([value.flatten(1).square().sum(1) for value in samples.values()]).sum(0).sqrt()
    factor = (bound / norms).clamp(max=1.0)
    return {name: torch.einsum("i,i...->...", factor, value) for name, value in samples.items()}


def poisson_batches(n: int, training: LocalTraining, *, seed: int) -> Iterator[Tensor]:
    """T index tensors; each sample is in each with probability B / N."""
    generator = stream(seed, "poisson batches")
    for _ in range(training.steps(n)):
        yield (torch.rand(n, generator=generator) < training.batch_size / n).nonzero().flatten()


def _unsupported(victim: Victim, finding: str) -> Problem:
    return Problem(
        f"dpsgd cannot train model {victim.name!r}",
        why=f"Opacus says: {finding.strip()}",
        fix="choose a model without such layers, or let opacus.validators.ModuleValidator.fix replace them",
    )
