"""What is known about a client's training: declared by people, seen by the watcher, found in a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from leakscope import settings
from leakscope.defenses import parse_defense
from leakscope.errors import InputError, each, refusal, refuse, unknown
from leakscope.integrations.watching import OPTIMIZERS, Seen
from leakscope.settings import Declared
from leakscope.types import Normalisation


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an update file tells about the training besides tensors; None is not known (yet)."""

    model: str | None = None
    """A registered name or `package.module:factory`: a hint for the auditor."""
    shape: tuple[int, ...] | None = None
    """(C, H, W) of one image."""
    classes: int | None = None
    n: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    mode: str | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    loss: str | None = None
    normalisation: Normalisation | None = None
    defense: str | None = None

    def over(self, other: Facts) -> Facts:
        """These facts, and those of `other` where these are not known."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **known)

    def contradictions(self, other: Facts) -> list[str]:
        """Where both are known and differ: `lr 0.1, not 0.01`."""
        return [
            f"{name} {value}, not {getattr(other, name)}"
            for name, value in vars(self).items()
            if value is not None and getattr(other, name) is not None and value != getattr(other, name)
        ]


def declared(options: Mapping[str, Any]) -> Facts:
    """Facts that a person wrote down; normalisation as (mean, std), shape as a sequence or `3x32x32`."""
    known = [entry.name for entry in fields(Facts)]
    refuse(unknown("option", name, known) for name in options if name not in known)
    given = {name: value for name, value in options.items() if value is not None}

    def read(name: str) -> Any:
        try:
            return READERS[name](given[name])
        except (TypeError, ValueError):
            raise refusal(f"{name} = {given[name]!r} cannot be read", fix=f"{name}={EXAMPLES[name]}") from None

    return Facts(**dict(zip(given, each(read, given), strict=True)))


def observed(seen: Seen, *, n: int | None, batch_size: int | None) -> Facts:
    """What the watcher saw, as facts; `batch_size` is what Poisson samples are drawn by, where that is known.

    A part of the training would tell wrong counts: what ended the watching is raised here.
    """
    if seen.failure is not None:
        raise seen.failure
    batch = batch_size if seen.per_sample else seen.batch_size or None
    passes = seen.steps / math.ceil(n / batch) if n and batch and seen.per_sample else seen.samples / n if n else 0
    rates: Mapping[str, Any] = seen.rates
    return Facts(
        shape=seen.shape,
        classes=seen.classes,
        n=n,
        epochs=max(1, round(passes)) if passes else None,
        batch_size=batch,
        mode=seen.mode,
        optimizer=OPTIMIZERS.get(seen.optimizer, seen.optimizer) if seen.optimizer else None,
        loss=seen.loss,
        **rates,
    )


def hint(seen: Seen) -> str | None:
    """`package.module:Class` of the model that was seen."""
    kind = type(getattr(seen.model, "_module", seen.model))
    return None if seen.model is None else f"{kind.__module__}:{kind.__qualname__}"


def _read_shape(value: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in (value.split("x") if isinstance(value, str) else value))


def _read_normalisation(value: Any) -> Normalisation:
    """A `Normalisation`, (mean, std), or `0.5,0.5,0.5/0.25,0.25,0.25`."""
    if isinstance(value, Normalisation):
        return value
    mean, std = (part.split(",") for part in value.split("/")) if isinstance(value, str) else value
    return Normalisation(tuple(map(float, mean)), tuple(map(float, std)))


def _read_setting(one: Declared) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if one.choices and value not in one.choices:
            raise InputError(unknown("value", str(value), one.choices))
        return one.kind(value)

    return read


TRAINING = settings.declared(settings.TrainingOptions)
READERS: dict[str, Callable[[Any], Any]] = {
    "model": str,
    "shape": _read_shape,
    "classes": int,
    "n": int,
    **{name: _read_setting(one) for name, one in TRAINING.items()},
    "loss": str,
    "normalisation": _read_normalisation,
    "defense": lambda text: str(parse_defense(str(text))),
}
EXAMPLES: dict[str, object] = {
    "shape": "(3, 32, 32)",
    "classes": 10,
    "n": 50,
    **{name: one.example for name, one in TRAINING.items()},
    "normalisation": "((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))",
}
