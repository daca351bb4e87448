"""An attack is a composition of parts; this file runs it on an Observation, descent.py is its loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from leakscope.attacks.changes import Adaptation, Renewal
from leakscope.attacks.checkpoints import Checkpoint, checkpoint, unpack
from leakscope.attacks.compiled import Choice, Evaluator
from leakscope.attacks.descent import Descent, descend
from leakscope.attacks.direction import Direction, Gradient
from leakscope.attacks.images import Images, Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.labelling import find_labels
from leakscope.attacks.lockstep import Lockstep, groups
from leakscope.attacks.matching import Cosine, Matching
from leakscope.attacks.preparation import Preparation, prepare
from leakscope.attacks.priors import Prior, TotalVariation
from leakscope.attacks.rounds import Round
from leakscope.attacks.surrogate import Linear, Surrogate
from leakscope.attacks.watch import Watch
from leakscope.observation.firewall import Observation
from leakscope.types import Reconstruction


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A composition of parts. Call it with an Observation, get a Reconstruction."""

    name: str
    images: Images = field(default_factory=Pixels)
    surrogate: Surrogate = field(default_factory=Linear)
    matching: Matching = field(default_factory=Cosine)
    priors: tuple[Prior, ...] = (TotalVariation(),)
    adaptations: tuple[Adaptation, ...] = ()
    preparation: Preparation | None = None
    renewal: Renewal | None = None
    optimiser: str = "adam"
    direction: Direction = field(default_factory=Gradient)
    schedule: str = "paper"
    iterations: int = 1000
    history: int = 50
    """A history row every so many iterations."""
    restarts: int = 1
    """Independent starts; the one with the lowest final objective counts."""
    early_stop: float = 0.0
    """Stop once the objective fell by less than this part of itself between two history rows; 0 never stops."""
    chunk: int | None = None
    """How many dummy images go through the net at a time; None: all. It changes memory, time and rounding only."""
    compile: Choice = "auto"
    """Whether the step is compiled; `auto`: where that pays."""
    lockstep: Choice = "auto"
    """Whether restarts are evaluated together; `auto`: on a GPU, which one alone does not fill."""

    def __call__(
        self,
        observation: Observation,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        watch: Watch | None = None,
        resume: Checkpoint | None = None,
    ) -> Reconstruction:
        """Run all restarts; `resume` continues from a checkpoint that `watch.keep` was given."""
        watch = watch or Watch()
        observation, labelling = find_labels(observation)
        attack, known, notes = self.adapt(Known.of(observation, torch.device(device)))
        rounds = tuple(Round.of(self, seen, torch.device(device)) for seen in observation.more)
        watch.plan(notes)
        resume = dict(resume or {})
        attack = replace(attack, iterations=resume.get("iterations", attack.iterations))
        champion: Reconstruction | None = unpack(resume.get("champion"))
        evaluate = Evaluator.of(attack, known)
        for group in groups(attack, known, rounds, first=int(resume.get("restart", 0))):
            save = partial(checkpoint, attack.iterations, group[0], champion)
            starts = [seed * 1000 + restart for restart in group]
            ready = prepare(attack, known, seed=starts[0], watch=watch, state=resume.pop("ready", None), save=save)
            states = resume.pop("runs", [None] * len(group))
            step = evaluate if len(group) == 1 else Lockstep()
            runs = [
                Descent(attack, known, labelling, seed=start, state=state, ready=ready, rounds=rounds, evaluate=step)
                for start, state in zip(starts, states, strict=True)
            ]
            if isinstance(step, Lockstep):
                step.runs += runs
            if ready.finished:
                ended = descend(runs, watch, partial(save, ready, runs))
            else:
                ended = [run.result("interrupted") for run in runs]
            champion = best_of((*ended, *([champion] if champion else [])))
            if ended[0].status == "interrupted":
                champion = replace(champion, status="interrupted")
                break
        assert champion is not None
        return replace(champion, notes={**notes, **champion.notes, **evaluate.notes()})

    def adapt(self, known: Known) -> tuple[Attack, Known, dict[str, object]]:
        """The composition after its adaptations have looked at the observation, with their notes."""
        attack: Attack = self
        notes: dict[str, object] = {}
        for adaptation in self.adaptations:
            attack, known, note = adaptation(attack, known)
            notes.update(note)
        return attack, known, notes


def best_of(found: tuple[Reconstruction, ...]) -> Reconstruction:
    """The one with the lowest objective, and the seconds of all; one that diverged has none."""
    best = min(found, key=lambda one: (math.isnan(one.objective), one.objective))
    return replace(best, seconds=sum(one.seconds for one in found))
