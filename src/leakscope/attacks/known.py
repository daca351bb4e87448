"""What the attacker knows, laid out for the loop: flat weight vectors, and the dummy gradient of eq. 8."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.attacks.calculus import AUTOGRAD, Calculus
from leakscope.attacks.convolution import speed_up_convolutions
from leakscope.attacks.parts import SCRATCH
from leakscope.observation.firewall import Observation
from leakscope.types import LocalTraining, Normalisation, Weights
from leakscope.victims import Victim

Variables = Mapping[str, Tensor]
"""Everything an optimiser may move, by name: x, t, p1, d, ..."""


@dataclass(frozen=True)
class Variable:
    """A tensor that the optimiser moves, declared by the part that owns it."""

    start: Tensor
    """Copied before it moves, so that a constant may be given as one number, expanded."""
    lr: float
    ridge: float = 0.0
    """Weight of its squared norm in the objective: lambda_p of eq. 7, lambda_d of eq. 10."""
    project: Callable[[Tensor], object] | None = None
    """Brings the tensor back into its feasible set, in place, after every step."""


@dataclass(frozen=True)
class Dummy:
    """What the dummy images induce at the surrogate state. Priors see it differentiable, without `update`."""

    update: tuple[Tensor, ...]
    """The dummy gradient g_t, or the update of a simulated client, tensor by tensor in the order of the weights."""
    loss: Tensor
    """(): mean cross-entropy of the dummy images."""
    features: Tensor | None
    """(N, F): the input of the first fully connected layer, None where the net has none."""


@dataclass(frozen=True)
class Known:
    """The Observation on one device, with weights as vectors in R^p in the order of `sizes`."""

    module: nn.Module
    buffers: Weights
    sizes: Mapping[str, torch.Size]
    w0: Tensor
    """(p,)"""
    delta: Tensor
    """(p,): the visible update w0 - wT."""
    labels: Tensor | None
    """(N,) class indices, or None where the attacker has to find them."""
    n: int
    shape: tuple[int, int, int]
    classes: int
    training: LocalTraining
    normalisation: Normalisation
    declared_defense: str
    auxiliary: bool
    """Whether the attacker may use other images of the same kind."""
    tape: dict[str, Tensor] = field(metadata=SCRATCH)
    """Where the net leaves its features during a pass."""
    feature_layer: str | None
    """Name of the first fully connected layer in the order of the forward pass."""
    buffers_after: Weights = field(default_factory=dict)
    """Batch-norm statistics and counters after training, where they were sent."""
    channels_last: bool = False
    """Whether images go through the net with their channels innermost."""

    @classmethod
    def of(cls, observation: Observation, device: torch.device, dtype: torch.dtype = torch.float32) -> Known:
        module = attack_copy(observation.victim.module, observation.training).to(device, dtype)
        tape: dict[str, Tensor] = {}
        labels = observation.labels
        return cls(
            module=module,
            buffers=_to(observation.buffers, device, dtype),
            sizes=observation.victim.sizes,
            w0=_flatten(observation.w0, observation.victim.sizes).to(device, dtype),
            delta=_flatten(observation.delta, observation.victim.sizes).to(device, dtype),
            labels=None if labels is None else labels.to(device),
            n=observation.n,
            shape=observation.victim.shape,
            classes=observation.victim.classes,
            training=observation.training,
            normalisation=observation.normalisation,
            declared_defense=observation.declared_defense,
            auxiliary=observation.knowledge.auxiliary,
            tape=tape,
            feature_layer=_tap_first_linear(module, observation.victim, tape),
            buffers_after=_to(observation.buffers_after, device, dtype),
            channels_last=speed_up_convolutions(module, observation.victim.shape),
        )

    @property
    def wT(self) -> Tensor:  # noqa: N802 - the paper's symbol
        """The model after local training as the server sees it: w0 minus the visible update."""
        return self.w0 - self.delta

    @property
    def counts(self) -> list[int]:
        """How many weights each tensor has."""
        return [size.numel() for size in self.sizes.values()]

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """(p,) -> named tensors, as views."""
        pieces = torch.split(vector, self.counts)
        return {name: piece.view(size) for (name, size), piece in zip(self.sizes.items(), pieces, strict=True)}

    def join(self, pieces: Iterable[Tensor]) -> Tensor:
        """Tensors in the order of `sizes` -> (p,)."""
        return torch.cat([piece.reshape(-1) for piece in pieces])

    def gradient(self, weights: Weights, x: Tensor, y: Tensor, calculus: Calculus = AUTOGRAD) -> Dummy:
        """g = grad_w loss(f_w(x), y) (eq. 8), differentiable in w, x and y; the loss is a sum over x divided by N.

        x: the dummy images or some of them; y: their class indices or probabilities.
        """

        def loss_at(*pieces: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor | None]]:
            named = dict(zip(weights, pieces, strict=True))
            images = x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
            logits = torch.func.functional_call(self.module, {**named, **self.buffers}, (images,))
            loss = functional.cross_entropy(logits, y, reduction="sum") / self.n
            return loss, (loss, self.tape.pop("features", None))

        update, (loss, features) = calculus.gradient(loss_at, tuple(weights.values()))
        return Dummy(update, loss, features)


def attack_copy(module: nn.Module, training: LocalTraining) -> nn.Module:
    """The victim as the dummy gradient needs it: batch norm with batch statistics in train mode, no dropout.

    Dropout draws a new mask in every step of the client, which no attacker can know: its mean is the best guess.
    """
    module = copy.deepcopy(module).eval()
    if training.mode == "train":
        torch.func.replace_all_batch_norm_modules_(module)
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.train()
    return module.requires_grad_(False)


def _flatten(weights: Weights, sizes: Mapping[str, torch.Size]) -> Tensor:
    return torch.cat([weights[name].reshape(-1) for name in sizes])


def _to(weights: Weights, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: value.to(device, dtype if value.is_floating_point() else value.dtype) for name, value in weights.items()
    }


def _tap_first_linear(module: nn.Module, victim: Victim, tape: dict[str, Tensor]) -> str | None:
    """Find the first trained linear layer that takes one vector per image, and let it put its input on the tape."""
    seen: list[str] = []

    def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _, inputs: seen.append(name) if inputs[0].dim() == 2 else None

    parts = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    layers = [(name, part) for name, part in parts if f"{name}.weight" in victim.sizes]
    handles = [part.register_forward_pre_hook(note(name)) for name, part in layers]
    example = next(module.parameters())
    with torch.no_grad():
        module(torch.zeros(2, *victim.shape, dtype=example.dtype, device=example.device))
    for handle in handles:
        handle.remove()
    if not seen:
        return None
    module.get_submodule(seen[0]).register_forward_pre_hook(lambda _, inputs: tape.update(features=inputs[0]))
    return seen[0]
