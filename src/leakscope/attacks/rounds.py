"""Several recorded rounds of the same client: one set of dummy images has to explain every one of their updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakscope.attacks.composition import Composition
from leakscope.attacks.images import Images
from leakscope.attacks.known import Known, Variable, Variables
from leakscope.attacks.objective import Gradients, Objective, Terms
from leakscope.observation.firewall import Observation


@dataclass(frozen=True)
class Round:
    """A further round: the composition as adapted to its update, and the variables of its surrogate and matching."""

    attack: Composition
    known: Known
    declared: Mapping[str, Variable]

    @classmethod
    def of(cls, attack: Composition, seen: Observation, device: torch.device) -> Round:
        adapted, known, _ = attack.adapt(Known.of(seen, device))
        return cls(adapted, known, {**adapted.surrogate.variables(known), **adapted.matching.variables(known)})

    def objective(self, images: Images, first: Known) -> Objective:
        """Its objective for the dummy images and labels of the first round."""
        ridges = {name: variable.ridge for name, variable in self.declared.items() if variable.ridge}
        known = replace(self.known, labels=first.labels)
        parts = self.attack
        return Objective(
            known, Shared(images, first), parts.surrogate, parts.matching, parts.priors, ridges, parts.chunk
        )


@dataclass(frozen=True)
class Shared:
    """The dummy images of the first round, whichever round looks at them."""

    images: Images
    first: Known

    def variables(self, known: Known, generator: torch.Generator) -> dict[str, Variable]:  # noqa: ARG002
        return {}

    def decode(self, v: Variables, known: Known) -> Tensor:  # noqa: ARG002
        return self.images.decode(v, self.first)


def named(rounds: tuple[Round, ...]) -> dict[str, Variable]:
    """The variables of further rounds: `t@1`, `p1@1`, `t@2`, ..."""
    return {f"{name}@{k}": value for k, each in enumerate(rounds, 1) for name, value in each.declared.items()}


@dataclass(frozen=True)
class Together:
    """The sum over the rounds of their objectives (eq. 11), each with a surrogate and a matching of its own."""

    first: Objective
    more: tuple[Objective, ...]

    def evaluate(self, v: Variables, progress: Tensor) -> tuple[Gradients, Tensor, Terms]:
        """As of one round; the terms, which are for reading, are means."""
        moved = (*self.first.surrogate.moves, *self.first.matching.moves)
        shared = [name for name in v if "@" not in name and name not in moved]
        gradients, value, terms = self.first.evaluate({name: v[name] for name in (*shared, *moved)}, progress)
        for k, part in enumerate(self.more, 1):
            own = {name: f"{name}@{k}" for name in (*part.surrogate.moves, *part.matching.moves)}
            found, one, also = part.evaluate(
                {**{name: v[name] for name in shared}, **{name: v[other] for name, other in own.items()}}, progress
            )
            for name, gradient in found.items():
                place = own.get(name, name)
                gradients[place] = gradients[place] + gradient if place in gradients else gradient
            value, terms = value + one, {name: term + also[name] for name, term in terms.items()}
        means = {name: term / (1 + len(self.more)) for name, term in terms.items()}
        return {name: gradients[name] for name in v}, value, means
