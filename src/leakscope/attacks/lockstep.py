"""Several starts of one attack, evaluated together by vmap: a GPU has room for more dummy images than one start has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from leakscope.attacks.calculus import Functional
from leakscope.attacks.compiled import Differentiable, why_not
from leakscope.attacks.composition import Composition
from leakscope.attacks.direction import Evaluated, Gradient
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.objective import Objective
from leakscope.attacks.optimisers import LEAN
from leakscope.attacks.parts import named_tensors, with_tensors
from leakscope.attacks.rounds import Round


class Running(Protocol):
    """What of a run an evaluation needs."""

    @property
    def objective(self) -> Differentiable: ...

    @property
    def v(self) -> Variables: ...


def groups(attack: Composition, known: Known, rounds: Sequence[Round], *, first: int) -> Iterator[Sequence[int]]:
    """The restarts from `first` on: all in lockstep, or one after the other."""
    restarts = range(first, attack.restarts)
    return iter([restarts] if in_lockstep(attack, known, rounds) else [(restart,) for restart in restarts])


def in_lockstep(attack: Composition, known: Known, rounds: Sequence[Round]) -> bool:
    """Whether restarts can and should go together: a function of attack and device, never of a clock."""
    simple = not rounds and attack.preparation is None and why_not(attack) is None
    once = attack.optimiser in ("adam", *LEAN) and isinstance(attack.direction, Gradient)
    possible = attack.restarts > 1 and simple and once
    return possible and (attack.lockstep == "on" or (attack.lockstep == "auto" and known.w0.device.type == "cuda"))


@dataclass
class Lockstep:
    """An evaluator that several runs share: the first that asks has all of them evaluated."""

    runs: list[Running] = field(default_factory=list)
    ready: dict[int, Evaluated] = field(default_factory=dict)

    def __call__(self, objective: Differentiable, v: Variables, progress: Tensor) -> Evaluated:  # noqa: ARG002
        if id(v) not in self.ready:
            objectives = [run.objective for run in self.runs if isinstance(run.objective, Objective)]
            found = evaluate_together(objectives, [run.v for run in self.runs], progress)
            self.ready = {id(run.v): evaluated for run, evaluated in zip(self.runs, found, strict=True)}
        return self.ready.pop(id(v))


def evaluate_together(
    objectives: Sequence[Objective], variables: Sequence[Variables], progress: Tensor
) -> list[Evaluated]:
    """`Objective.evaluate` of objectives that differ in their tensors only; what all of them share is not copied."""
    first = objectives[0]
    parts = [dict(named_tensors(each)) for each in objectives]
    columns = {place: [each[place] for each in parts] for place in parts[0]}
    shared = {place: all(value is column[0] for value in column) for place, column in columns.items()}
    given = [column[0] if shared[place] else torch.stack(column) for place, column in columns.items()]

    def one(v: dict[str, Tensor], *values: Tensor) -> Evaluated:
        mine = with_tensors(first, dict(zip(columns, values, strict=True)))
        return replace(mine, calculus=Functional()).evaluate(v, progress)

    stacked = {name: torch.stack([v[name] for v in variables]) for name in variables[0]}
    with torch.no_grad():
        axes = (0, *(None if same else 0 for same in shared.values()))
        gradients, values, terms = torch.func.vmap(one, in_dims=axes)(stacked, *given)
    return [
        (
            {name: value[k] for name, value in gradients.items()},
            values[k],
            {name: value[k] for name, value in terms.items()},
        )
        for k in range(len(variables))
    ]
