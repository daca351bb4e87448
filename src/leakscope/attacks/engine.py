"""An attack is a composition of parts; this file runs it on an Observation, descent.py is its loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch

from leakscope.attacks.checkpoints import Checkpoint, checkpoint, unpack
from leakscope.attacks.compiled import Evaluator
from leakscope.attacks.composition import Composition
from leakscope.attacks.descent import Descent, descend
from leakscope.attacks.known import Known
from leakscope.attacks.labelling import find_labels
from leakscope.attacks.lockstep import Lockstep, groups
from leakscope.attacks.preparation import prepare
from leakscope.attacks.rounds import Round
from leakscope.attacks.watch import Watch
from leakscope.observation.firewall import Observation
from leakscope.types import Reconstruction


@dataclass(frozen=True, kw_only=True)
class Attack(Composition):
    """A composition of parts. Call it with an Observation, get a Reconstruction."""

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


def best_of(found: tuple[Reconstruction, ...]) -> Reconstruction:
    """The one with the lowest objective, and the seconds of all; one that diverged has none."""
    best = min(found, key=lambda one: (math.isnan(one.objective), one.objective))
    return replace(best, seconds=sum(one.seconds for one in found))
