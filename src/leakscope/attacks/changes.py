"""What may change an attack by other means than the gradient: before the loop, and between its iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from leakscope.attacks.known import Known, Variables

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack


FINISHED = "finished"
"""What a renewal remembers once there is nothing left to find; the loop ends then."""


class Adaptation(Protocol):
    """Changes the composition after a look at what was observed, and says why."""

    def __call__(self, attack: Attack, known: Known) -> tuple[Attack, Known, Mapping[str, object]]: ...


@dataclass(frozen=True)
class Moment:
    """Where the loop is when a renewal is called."""

    progress: float
    """The part of the iterations that is done; 1 is the end."""
    l_sim: Tensor
    """(): how well the images explained the update in the last iteration, without priors."""


class Renewal(Protocol):
    """Changes variables between iterations by other means than the gradient."""

    @property
    def at(self) -> tuple[float, ...]:
        """When: parts of the iterations."""

    def __call__(self, v: Variables, known: Known, memory: dict[str, Tensor], moment: Moment) -> dict[str, Tensor]:
        """The variables that change; `memory` is kept from one call to the next, and joins the constants of Known."""
