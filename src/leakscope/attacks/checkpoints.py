"""What an interrupted attack needs to go on as if nothing had happened: plain tensors, numbers and lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from leakscope.attacks.composition import Prepared, State
from leakscope.types import Reconstruction

Checkpoint = State


class Packable(Protocol):
    """A run that may be interrupted."""

    def pack(self) -> State: ...


def checkpoint(
    iterations: int, restart: int, champion: Reconstruction | None, ready: Prepared, runs: Sequence[Packable] | None
) -> Checkpoint:
    """The state of an attack: the best restart so far, what was prepared, and the descents that run, if any do."""
    state = {"iterations": iterations, "restart": restart, "champion": pack(champion), "ready": ready.pack()}
    return state if runs is None else {**state, "runs": [run.pack() for run in runs]}


def pack(reconstruction: Reconstruction | None) -> Checkpoint | None:
    if reconstruction is None:
        return None
    return {f.name: getattr(reconstruction, f.name) for f in dataclasses.fields(reconstruction)}


def unpack(packed: Checkpoint | None) -> Reconstruction | None:
    return None if packed is None else Reconstruction(**packed)
