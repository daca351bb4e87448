"""What a training loop really does, seen from outside: shapes, modes and rates, never a pixel.

A recorder that relied on what people declare would repeat their mistakes: a learning rate that was changed elsewhere,
a model left in eval mode. torch lets anybody watch forward passes and optimiser steps, so the recorder does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss
from torch.nn.modules.module import register_module_forward_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from leakscope.settings import TrainingOptions, declared
from leakscope.victims import WRAPPERS

RATES = tuple(name for name, one in declared(TrainingOptions).items() if one.kind is float)
OPTIMIZERS: dict[str, Literal["sgd", "adam"]] = {"SGD": "sgd", "Adam": "adam", "AdamW": "adam"}


@dataclass
class Seen:
    """What was seen so far of the training of one model."""

    model: nn.Module | None = None
    shape: tuple[int, ...] | None = None
    """Of one input, without the batch."""
    classes: int | None = None
    mode: Literal["train", "eval"] | None = None
    loss: str | None = None
    batch_size: int = 0
    """The largest."""
    samples: int = 0
    steps: int = 0
    optimizer: str | None = None
    """The name of its class."""
    rates: dict[str, float] = field(default_factory=dict)
    """lr, momentum and weight_decay at the first step."""
    per_sample: bool = False
    """Opacus takes its gradients apart: the batches are then Poisson samples, whose sizes say little."""
    failure: Exception | None = None
    """What ended the watching before the training did."""

    def trainable(self) -> set[str] | None:
        """Names of the tensors that training moves; a tied tensor has one name. None where no model was seen."""
        if self.model is None:
            return None
        return {name for name, value in plain(dict(self.model.named_parameters())).items() if value.requires_grad}

    def state(self) -> list[str]:
        """Names of all tensors of the model in the order in which they are sent."""
        return [] if self.model is None else list(plain(self.model.state_dict()))


def plain(named: dict[str, Any]) -> dict[str, Any]:
    """The names without a wrapper's prefix; one that only some of them have belongs to the model."""
    for prefix in WRAPPERS:
        if named and all(name.startswith(prefix) for name in named):
            return plain({name.removeprefix(prefix): value for name, value in named.items()})
    return named


@contextmanager
def watching(names: Collection[str]) -> Iterator[Seen]:
    """Watch this thread train the model that holds tensors of these names (or as many, where they are numbers).

    What goes wrong here ends the watching, never the training.
    """
    seen, thread = Seen(), threading.get_ident()

    def harmless(note: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
        def hook(*arguments: Any) -> None:
            if torch.compiler.is_compiling():  # nothing of this can be traced; the compiled model as a whole is seen
                return
            if seen.failure is None and threading.get_ident() == thread:
                try:
                    note(*arguments)
                except Exception as error:  # models and optimisers of other people may raise anything
                    seen.failure = error

        return hook

    def after_forward(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not torch.is_grad_enabled():
            return
        if isinstance(module, _Loss):
            seen.loss = loss_name(module)
        elif seen.model is None and holds(module, names):
            seen.model = module
        if module is seen.model:
            _note_forward(seen, inputs, output)
        seen.per_sample = seen.per_sample or type(module).__name__.startswith("GradSampleModule")

    def before_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if seen.model is not None and _moves(optimizer, seen.model.parameters()):
            _note_step(seen, optimizer)

    handles = [
        register_module_forward_hook(harmless(after_forward)),
        register_optimizer_step_pre_hook(harmless(before_step)),
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def holds(module: nn.Module, names: Collection[str]) -> bool:
    """Is this the model whose tensors were sent?"""
    state = plain(module.state_dict())
    if names and all(name.isdecimal() for name in names):
        return len(state) == len(names)
    return bool(names) and set(names) <= state.keys()


def loss_name(loss: nn.Module) -> str:
    """`cross_entropy`, with whatever differs from the plain one."""
    if not isinstance(loss, nn.CrossEntropyLoss):
        return type(loss).__name__
    odd = [f"label_smoothing={loss.label_smoothing:g}"] if loss.label_smoothing else []
    odd += ["weighted"] if loss.weight is not None else []
    odd += [f"reduction={loss.reduction}"] if loss.reduction != "mean" else []
    return f"cross_entropy({', '.join(odd)})" if odd else "cross_entropy"


def _note_forward(seen: Seen, inputs: tuple[Any, ...], output: Any) -> None:
    assert seen.model is not None
    seen.mode = "train" if seen.model.training else "eval"
    if inputs and isinstance(inputs[0], Tensor):
        count, *shape = inputs[0].shape
        seen.shape = tuple(shape)
        seen.batch_size = max(seen.batch_size, count)
        seen.samples += count
    if isinstance(output, Tensor) and output.dim() == 2:
        seen.classes = output.shape[1]


def _note_step(seen: Seen, optimizer: Optimizer) -> None:
    seen.steps += 1
    if seen.optimizer is None:
        group = optimizer.param_groups[0]
        seen.optimizer = type(optimizer).__name__
        seen.rates = {name: float(group.get(name) or 0.0) for name in RATES}


def _moves(optimizer: Optimizer, parameters: Iterable[Tensor]) -> bool:
    own = {id(parameter) for parameter in parameters}
    return any(id(value) in own for group in optimizer.param_groups for value in group["params"])
