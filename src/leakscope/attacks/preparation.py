"""Long work before the first iteration: a search, or another attack to start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from leakscope.attacks.known import Known
from leakscope.attacks.watch import Watch

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack

State = dict[str, Any]
Keep = Callable[[Callable[[], "Prepared"]], None]
"""After every piece of work: may take a checkpoint to continue from."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What preparation found, or has found so far; part of every checkpoint."""

    constants: Mapping[str, Tensor] = field(default_factory=dict)
    """Joins `Known.constants`."""
    iterations: int = 0
    """How many iterations of the attack it took, if any."""
    seconds: float = 0.0
    rows: tuple[Mapping[str, float], ...] = ()
    """Its part of the history."""
    notes: Mapping[str, object] = field(default_factory=dict)
    finished: bool = True
    state: State | None = None
    """Where to go on, while it is not finished."""

    def known(self, known: Known) -> Known:
        """What is known after the preparation."""
        return replace(known, constants={**known.constants, **self.constants})

    def pack(self) -> State:
        return {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}


class Preparation(Protocol):
    """Runs once for every start of an attack. Asks `watch.stop()` often, and says whether it got to its end."""

    def __call__(
        self, attack: Attack, known: Known, *, seed: int, watch: Watch, before: Prepared | None, keep: Keep
    ) -> Prepared:
        """`before`: what an earlier call had found when it was interrupted."""

    def steps(self, iterations: int) -> float:
        """At most how many iterations of the attack it costs, for a plan: the attack makes `iterations` of its own."""


def prepare(
    attack: Attack,
    known: Known,
    *,
    seed: int,
    watch: Watch,
    state: State | None,
    save: Callable[[Prepared, None], State],
) -> Prepared:
    """What the attack's preparation finds, or found before it was interrupted (`state`)."""
    before = None if state is None else Prepared(**state)
    if attack.preparation is None or (before is not None and before.finished):
        return before or Prepared()

    def keep(found: Callable[[], Prepared]) -> None:
        watch.keep(lambda: save(found(), None))

    return attack.preparation(attack, known, seed=seed, watch=watch, before=before, keep=keep)
