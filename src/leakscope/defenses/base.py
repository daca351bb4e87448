"""What a defense is, and the units it works in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from leakscope.client.training import Client, Gradients
from leakscope.errors import Problem, refuse
from leakscope.options import Range, out_of_range
from leakscope.types import LocalTraining, Update, Weights
from leakscope.victims import Victim

Unit = Literal["update", "gradient"]
"""A strength is meant for the update w0 - wT itself, or for the accumulated gradient (w0 - wT) / lr."""


@runtime_checkable
class Defense(Protocol):
    """A transform of the update after training: a frozen keyword-only dataclass.

    Hyper-parameters are validated in `__post_init__`; what depends on the model, in `check`, before any work.
    """

    def check(self, victim: Victim, training: LocalTraining) -> None:
        """Raise an InputError where this defense cannot work."""

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """The update that leaves the client."""


@runtime_checkable
class TrainingDefense(Protocol):
    """A defense inside training: it computes every step's gradient, and may draw the batches."""

    def check(self, victim: Victim, training: LocalTraining) -> None:
        """Raise an InputError where this defense cannot work."""

    def gradients(self, client: Client, *, seed: int) -> Gradients:
        """The gradient of one step, in place of the plain mini-batch gradient."""

    def batches(self, client: Client, *, seed: int) -> Iterator[Tensor] | None:
        """The indices of every step's samples, or None for the client's own shuffled batches."""

    def annotate(self, update: Update, client: Client) -> Update:
        """The update with what must be said about it in its notes."""


@runtime_checkable
class Imitable(Protocol):
    """A defense that an attacker who was told of it can apply to the dummy update as well."""

    def imitate(self, dummy: Weights, seen: Weights) -> dict[str, Tensor]:
        """The dummy update as the defense would have sent it, differentiable or straight through.

        `seen` is the visible update, whose zeros tell what was suppressed.
        """


class Checked:
    """What a defense is unless it says otherwise: its numbers are within their `Range`, and it works on every model."""

    revision: ClassVar[int] = 0
    """Raise it when the numbers change: results of before then count as those of another defense."""

    def __post_init__(self) -> None:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()
        advice = f"--defense {name}:{{name}}={{example}}"
        refuse([*out_of_range(self, kind=name, advice=advice), *self.together()])

    def together(self) -> Iterable[Problem]:
        """What is wrong with its options taken together."""
        return ()

    def check(self, victim: Victim, training: LocalTraining) -> None:
        """Nothing to check."""


@dataclass(frozen=True, kw_only=True)
class Undefended(Checked):
    """The update as training left it, so that `none` can be named wherever a defense can."""

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """The same update."""
        return update


SHARE = Range("[0, 1)", 0.9)
POSITIVE = Range("(0, inf]", 4)
FINITE = Range("[0, inf)", 0.1)


def unit(on: Unit, training: LocalTraining) -> float:
    """What one unit of strength is worth in the update: gradient = update / lr."""
    return training.lr if on == "gradient" else 1.0


def changed(update: Update, delta: Weights, notes: Mapping[str, object] | None = None) -> Update:
    """The update with other values, and notes added to those that are there."""
    return replace(update, delta=dict(delta), notes={**update.notes, **(notes or {})})


def per_tensor(delta: Weights, keep: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Zero what `keep` leaves out of each tensor; `keep` maps flat magnitudes to a flat mask."""
    return {name: _masked(value, keep(value.abs().flatten())) for name, value in delta.items()}


def globally(delta: Weights, keep: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The same with one ranking over all tensors."""
    mask = keep(torch.cat([value.abs().flatten() for value in delta.values()]))
    pieces = torch.split(mask, [value.numel() for value in delta.values()])
    return {name: _masked(value, piece) for (name, value), piece in zip(delta.items(), pieces, strict=True)}


SCOPES: dict[str, Callable[[Weights, Callable[[Tensor], Tensor]], dict[str, Tensor]]] = {
    "tensor": per_tensor,
    "global": globally,
}


def share(rate: float, count: int) -> int:
    """How many of `count` entries a rate stands for, rounded down (0.29 * 100 is 29, whatever floats say)."""
    return math.floor(rate * count + 1e-9)


def noise(value: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """N(0, std²) of the same shape, drawn on the CPU so that every device sees the same numbers."""
    return (torch.randn(value.shape, generator=generator) * std).to(value)


def _masked(value: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.view_as(value), value, torch.zeros_like(value))
