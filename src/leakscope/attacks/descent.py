"""The only optimisation loop: one start of one attack, or several in lockstep."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from leakscope.attacks.checkpoints import Checkpoint
from leakscope.attacks.compiled import Evaluator
from leakscope.attacks.composition import Composition, Moment, Prepared
from leakscope.attacks.copies import merge
from leakscope.attacks.direction import Evaluated, Gradients
from leakscope.attacks.known import Known, Variable
from leakscope.attacks.labelling import Labelling
from leakscope.attacks.lockstep import Lockstep
from leakscope.attacks.objective import Objective
from leakscope.attacks.optimisers import OPTIMISERS
from leakscope.attacks.parts import named_tensors, with_tensors
from leakscope.attacks.rounds import Round, Together, named
from leakscope.attacks.schedules import SCHEDULES
from leakscope.attacks.watch import Watch
from leakscope.types import Reconstruction, stream

Status = Literal["finished", "stopped early", "interrupted"]


def descend(runs: Sequence[Descent], watch: Watch, checkpoint: Callable[[], Checkpoint]) -> list[Reconstruction]:
    """Iterate all runs, in lockstep, until they are done or somebody asks to stop."""
    first = runs[0]
    total = first.attack.iterations
    status: Status = "finished"
    try:
        while first.iteration < total:
            if watch.stop():
                watch.keep(checkpoint)
                status = "interrupted"
                break
            began = time.perf_counter()
            seen = [run.step() for run in runs]
            for run in runs:
                run.seconds += (time.perf_counter() - began) / len(runs)
            solved = all(run.finished for run in runs)
            if first.iteration % first.attack.history == 0 or first.iteration == total or solved:
                for run, (value, terms) in zip(runs, seen, strict=True):
                    run.look(watch, float(value), terms)
                if solved or all(run.plateau() for run in runs):
                    status = "stopped early"
                    break
            watch.tick(first.ready.iterations + first.iteration, first.ready.iterations + total)
            watch.keep(checkpoint)
    except KeyboardInterrupt:
        status = "interrupted"
    return [run.result(status) for run in runs]


class Descent:
    """One start of one attack: variables, their optimiser, and what has been seen so far."""

    def __init__(
        self,
        attack: Composition,
        known: Known,
        labelling: Labelling | None,
        *,
        seed: int,
        state: Checkpoint | None,
        ready: Prepared | None = None,
        rounds: tuple[Round, ...] = (),
        evaluate: Evaluator | Lockstep | None = None,
    ) -> None:
        self.labelling, self.rounds, self.known = labelling, rounds, known
        self.ready = ready or Prepared()
        self.evaluate = evaluate or Evaluator()
        if attack.preparation is not None and self.ready.found is not None:
            attack = attack.preparation.compose(attack, self.ready.found)
        self.attack = self.begun = attack
        self.declared = {**declare(attack, known, seed), **named(rounds)}
        self._lay_out()
        self.v = {name: variable.start.clone() for name, variable in self.declared.items()}
        rates = {name: declared.lr for name, declared in self.declared.items()}
        self.optimiser = OPTIMISERS[attack.optimiser](self.v, rates, known.counts)
        self.iteration, self.seconds = 0, self.ready.seconds
        self.rows: list[dict[str, float]] = [dict(row) for row in self.ready.rows]
        self.seen: dict[str, float] = {}
        self.finished = False
        self.best = self.images()
        self.best_value = torch.full((), math.inf, dtype=known.w0.dtype, device=known.w0.device)
        self.best_l_sim = self.best_value.clone()
        if state is not None:
            self.unpack(state)

    def _lay_out(self) -> None:
        """The objective of the attack and of what is known, as both are now."""
        attack, known = self.attack, self.known
        ridges = {name: one.ridge for name, one in self.declared.items() if one.ridge and "@" not in name}
        first = Objective(known, attack.images, attack.surrogate, attack.matching, attack.priors, ridges, attack.chunk)
        more = tuple(each.objective(attack.images, known) for each in self.rounds)
        self.objective: Objective | Together = Together(first, more) if more else first

    def images(self) -> Tensor:
        """(N, C, H, W) in [0, 1]."""
        with torch.no_grad():
            x = self.attack.images.decode(self.v, self.known)
            x = x if len(x) == self.known.n else merge(x, self.known.n)
            return self.known.normalisation.invert(x).clamp(0, 1)

    def labels(self) -> Tensor:
        known = self.known.labels
        found = self.v["y"].argmax(1) if known is None else known
        return found.argmax(1) if found.dim() == 2 else found

    def step(self) -> tuple[Tensor, dict[str, Tensor]]:
        """One iteration: gradient of the objective, the optimiser on every variable, projections."""
        progress = self.iteration / self.attack.iterations
        factor = SCHEDULES[self.attack.schedule](progress)
        for group in self.optimiser.param_groups:
            group["lr"] = group["rate"] * factor
        gradients, value, terms = self._direct(progress)
        if progress >= 0.5:  # earlier values are not comparable: priors may still be fading in
            self._remember(value, terms["l_sim"])
        self._advance(gradients, value, again=partial(self._direct, progress))
        with torch.no_grad():
            for name, declared in self.declared.items():
                if declared.project is not None:
                    declared.project(self.v[name])
        self.iteration += 1
        self._renew(terms["l_sim"])
        self._relabel()
        return value, terms

    def _direct(self, progress: float) -> Evaluated:
        now = self.v_like(progress)
        return self.attack.direction(
            self.v, progress, partial(self.evaluate, self.objective, progress=now), self._advance
        )

    def _advance(
        self, gradients: Gradients, value: Tensor | None = None, again: Callable[[], Evaluated] | None = None
    ) -> None:
        """One step of the optimiser. `again` evaluates anew, for those that search along a line."""
        known = [(gradients, value)]

        def closure() -> Tensor | None:
            found, value = known.pop() if known else again()[:2]  # type: ignore[misc]
            for name, gradient in found.items():
                self.v[name].grad = gradient
            return value

        self.optimiser.step(closure)  # type: ignore[arg-type]
        self.optimiser.zero_grad()

    def _relabel(self) -> None:
        if self.labelling is not None and self.known.labels is not None and self._due(self.labelling.at):
            self._know_labels(self.labelling(self.images(), self.labels()))

    def _know_labels(self, labels: Tensor) -> None:
        self.known = replace(self.known, labels=labels)
        self._lay_out()

    def _due(self, parts: tuple[float, ...]) -> bool:
        return self.iteration in {round(part * self.attack.iterations) for part in parts}

    def _renew(self, l_sim: Tensor) -> None:
        """Let the renewal change the attack and its variables when its time has come.

        Entries that changed lose their momentum but not the scale of their steps.
        """
        renewal = self.attack.renewal
        if renewal is None or not self._due(renewal.at):
            return
        moment = Moment(self.iteration / self.attack.iterations, l_sim)
        with torch.no_grad():
            renewed = renewal(self.v, self.attack, self.known, moment)
            for name, value in renewed.moved.items():
                momentum = self.optimiser.state[self.v[name]].get("exp_avg")
                if momentum is not None:
                    momentum[self.v[name] != value] = 0
                self.v[name].copy_(value)
        self.attack, self.seen = renewed.attack, {**self.seen, **renewed.seen}
        self.finished = self.finished or renewed.finished
        self._lay_out()

    def v_like(self, number: float) -> Tensor:
        return torch.tensor(number, dtype=self.known.w0.dtype, device=self.known.w0.device)

    def result(self, status: Status) -> Reconstruction:
        _, value, terms = self.objective.evaluate(self.v, self.v_like(self.iteration / self.attack.iterations))
        self._remember(value, terms["l_sim"])
        return Reconstruction(
            images=self.images().cpu(),
            best=self.best.cpu(),
            labels=self.labels().cpu(),
            l_sim=float(terms["l_sim"]),
            l_sim_raw=float(terms["l_sim_raw"]),
            l_sim_best=float(self.best_l_sim),
            history=tuple(self.rows),
            iterations=self.ready.iterations + self.iteration,
            seconds=self.seconds,
            status=status,
            objective=float(value),
            notes={**self.ready.notes, **self._moved()},
        )

    def pack(self) -> Checkpoint:
        """Everything that determines the rest of the run, as plain tensors, numbers and lists."""
        return {
            "v": {name: value.clone() for name, value in self.v.items()},
            "optimiser": self.optimiser.state_dict(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "renewed": self._renewed(),
            "seen": dict(self.seen),
            "finished": self.finished,
            "labels": self.known.labels,
            "rows": [dict(row) for row in self.rows],
            "best": (self.best, self.best_value, self.best_l_sim),
        }

    def unpack(self, state: Checkpoint) -> None:
        with torch.no_grad():
            for name, value in state["v"].items():
                self.v[name].copy_(value)
        self.optimiser.load_state_dict(state["optimiser"])
        device = self.known.w0.device
        self.attack = with_tensors(self.begun, {place: value.to(device) for place, value in state["renewed"].items()})
        self.seen, self.finished = dict(state["seen"]), state["finished"]
        self._lay_out()
        if self.labelling is not None and state["labels"] is not None:
            self._know_labels(state["labels"].to(device))
        self.iteration, self.seconds, self.rows = state["iteration"], state["seconds"], list(state["rows"])
        self.best, self.best_value, self.best_l_sim = (value.to(device) for value in state["best"])

    def _renewed(self) -> dict[str, Tensor]:
        """The tensors that renewals have put into the parts of the attack since the start, by their place."""
        before = dict(named_tensors(self.begun))
        return {place: value for place, value in named_tensors(self.attack) if before.get(place) is not value}

    def _remember(self, value: Tensor, l_sim: Tensor) -> None:
        better = value < self.best_value
        self.best = torch.where(better, self.images(), self.best)
        self.best_value = torch.where(better, value, self.best_value)
        self.best_l_sim = torch.where(better, l_sim, self.best_l_sim)

    def look(self, watch: Watch, value: float, terms: Mapping[str, Tensor]) -> None:
        row = {"iteration": self.ready.iterations + self.iteration, "objective": value, "seconds": self.seconds}
        row |= {name: float(term) for name, term in terms.items()} | self._moved()
        self.rows.append({**row, **watch.look(row, self.images(), self.labels())})

    def _moved(self) -> dict[str, float]:
        """How far the surrogate variables went: t, |P1 - mid| / |delta|, mean |d - 1|; and what a renewal says."""
        seen = dict(self.seen)
        if "t" in self.v:
            seen["t"] = float(self.v["t"])
        if "p1" in self.v:
            seen["p1_distance"] = float(self.v["p1"].norm() / self.known.delta.norm())
        if "d" in self.v:
            seen["d_distance"] = float(self.v["d"].abs().mean())
        return seen

    def plateau(self) -> bool:
        if self.attack.early_stop <= 0 or len(self.rows) < 2 or self.iteration < self.attack.iterations / 2:
            return False
        before, now = self.rows[-2]["objective"], self.rows[-1]["objective"]
        return before - now < self.attack.early_stop * abs(before)


def declare(attack: Composition, known: Known, seed: int) -> dict[str, Variable]:
    """All variables of all parts."""
    start = stream(seed, "dummy start")
    declared = {**attack.images.variables(known, start), **attack.surrogate.variables(known)}
    declared |= attack.matching.variables(known)
    if known.labels is None:
        noise = torch.randn(known.n, known.classes, generator=start).to(known.w0)
        declared["y"] = Variable(noise, 0.1)
    moved = attack.start.variables if attack.start else {}
    return {name: _from_before(one, moved.get(name)) for name, one in declared.items()}


def _from_before(variable: Variable, before: Tensor | None) -> Variable:
    """A variable that another attack has moved already starts from there."""
    return variable if before is None or before.shape != variable.start.shape else replace(variable, start=before)
