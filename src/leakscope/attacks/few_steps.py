"""`--schedule fast`: a reconstruction in few iterations, by what gets further in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known
from leakscope.attacks.matching import per_tensor

FAST = "fast"


def usual_iterations(attack: Composition, schedule: str | None) -> int:
    """How many iterations an attack gets that nobody counted: its own, or half where `fast` replaces the paper's.

    The paper's steps stay at their largest for too long.
    """
    return attack.iterations // 2 if schedule == FAST and attack.schedule == "paper" else attack.iterations


@dataclass(frozen=True, kw_only=True)
class InFewSteps:
    """With the schedule `fast`: one d per tensor, and images that look ahead beside a free path.

    Nesterov's momentum gains there and nothing in IG and SME (docs/speed.md), whose optimiser stays.
    """

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if attack.schedule != FAST:
            return attack, known, {}
        optimiser = "nadam-lean" if attack.optimiser == "adam-lean" else attack.optimiser
        return replace(attack, matching=per_tensor(attack.matching, known), optimiser=optimiser), known, {}
