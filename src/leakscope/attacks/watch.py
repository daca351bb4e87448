"""What an onlooker may do while an attack runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor


class Watch:
    """Sees every iteration and may stop the attack; this one does nothing. The attack learns nothing from it."""

    def look(self, row: Mapping[str, float], images: Tensor, labels: Tensor) -> Mapping[str, float]:
        """At every history point: the row so far and images (N, C, H, W) in [0, 1]. May add columns to the row."""
        del row, images, labels
        return {}

    def tick(self, iteration: int, iterations: int) -> None:
        """After every iteration."""

    def plan(self, notes: Mapping[str, object]) -> None:
        """Before the first iteration: what the attack made of the observation, and what it will take."""

    def prepare(self, what: str, done: int, total: int) -> None:
        """While the attack prepares its first iteration, e.g. after every candidate of a search."""

    def keep(self, checkpoint: Callable[[], dict[str, Any]]) -> None:
        """After every iteration: may take a checkpoint to continue from."""

    def stop(self) -> bool:
        """Before every iteration: True ends the attack with what there is."""
        return False
