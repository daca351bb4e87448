"""Long work before the first iteration, done or taken from where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable

from leakscope.attacks.composition import Composition, Prepared, State
from leakscope.attacks.known import Known
from leakscope.attacks.watch import Watch


def prepare(
    attack: Composition,
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
