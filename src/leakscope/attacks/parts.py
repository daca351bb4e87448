"""The tensors in a composition of frozen dataclasses, by their place in it: found, and replaced.

What a part has worked out for one client is a tensor in one of its fields. So one walk tells a compiled step what its
inputs are, restarts in lockstep what they share, and a checkpoint what has changed since the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")
SCRATCH = {"scratch": True}
"""Metadata of a field that holds nothing between two calls, and is none of a part's tensors."""


def named_tensors(part: object, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor with its place, e.g. `priors.1.span`, in the order of the fields."""
    if isinstance(part, Tensor):
        yield path, part
    for name, inner in _inside(part):
        yield from named_tensors(inner, f"{path}.{name}" if path else name)


def with_tensors(part: T, values: Mapping[str, Tensor], path: str = "") -> T:
    """The same part with other tensors in the places that `values` names; what they leave alone is not copied."""
    if path in values:
        return values[path]  # type: ignore[return-value]
    found = {name: (old, with_tensors(old, values, f"{path}.{name}" if path else name)) for name, old in _inside(part)}
    changed: dict[Any, Any] = {name: new for name, (old, new) in found.items() if new is not old}
    if not changed:
        return part
    if isinstance(part, Mapping):
        return {**part, **changed}  # type: ignore[return-value]
    if isinstance(part, tuple):
        return tuple(new for _, new in found.values())  # type: ignore[return-value]
    return replace(part, **changed)  # type: ignore[type-var]


def _inside(part: object) -> Iterator[tuple[Any, object]]:
    if is_dataclass(part):
        yield from ((field.name, getattr(part, field.name)) for field in fields(part) if field.metadata != SCRATCH)
    elif isinstance(part, Mapping):
        yield from part.items()
    elif isinstance(part, tuple):
        yield from enumerate(part)
