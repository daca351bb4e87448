"""Start an attack from what another one has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from leakscope.attacks.composition import Adapted, Composition, HeadStart, Keep, Prepared, State
from leakscope.attacks.descent import Descent, descend
from leakscope.attacks.images import FromImages
from leakscope.attacks.known import Known
from leakscope.attacks.watch import Watch


@dataclass(frozen=True, kw_only=True)
class StartFrom:
    """Gives the share `share` of the iterations to another attack."""

    attack: Composition
    share: float = 0.6

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        first = min(max(1, round(self.share * attack.iterations)), attack.iterations - 1)
        if first < 1:
            return attack, known, {"start": "noise, because one iteration cannot be shared"}
        note = {"start": f"{self.attack.name} for the first {first} of {attack.iterations} iterations"}
        ratio = first / (attack.iterations - first)
        warm = WarmStart(attack=self.attack, ratio=ratio)
        return replace(attack, iterations=attack.iterations - first, preparation=warm), known, note


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Runs another attack first, and begins with its images and the variables that both have."""

    attack: Composition
    ratio: float
    """Its iterations as a multiple of those of the attack it prepares."""

    def __call__(
        self, attack: Composition, known: Known, *, seed: int, watch: Watch, before: Prepared | None, keep: Keep
    ) -> Prepared:
        first, seen, notes = self.attack.adapt(known)
        iterations = max(1, round(self.ratio * attack.iterations))
        first = replace(first, iterations=iterations, history=attack.history, chunk=attack.chunk)
        run = Descent(first, seen, None, seed=seed, state=before.state if before else None)
        ahead = Ahead(watch, attack.iterations, lambda: keep(lambda: so_far(run, notes, finished=False)))
        (done,) = descend([run], ahead, dict)
        if done.status == "interrupted":
            return so_far(run, notes, finished=False)
        handed = ("y", *attack.surrogate.moves, *attack.matching.moves)
        moved = {name: run.v[name].detach().clone() for name in handed if name in run.v}
        return so_far(run, notes, finished=True, variables=moved, l_sim=run.v_like(done.l_sim))

    def compose(self, attack: Composition, found: State) -> Composition:
        start, images = HeadStart(**found), attack.images
        if isinstance(images, FromImages):
            images = replace(images, start=start.images)
        return replace(attack, images=images, start=start)

    def steps(self, iterations: int) -> float:
        return self.ratio * iterations


def so_far(run: Descent, notes: Mapping[str, object], *, finished: bool, **more: object) -> Prepared:
    """What the first attack has found: the fields of a HeadStart."""
    return Prepared(
        found={"images": run.attack.images.decode(run.v, run.known).detach().clone(), **more},
        iterations=run.iteration,
        seconds=run.seconds,
        rows=tuple(run.rows),
        notes={"first_attack": dict(notes)} if notes else {},
        finished=finished,
        state=None if finished else run.pack(),
    )


class Ahead(Watch):
    """Shows the first attack as the first part of the whole."""

    def __init__(self, watch: Watch, more: int, kept: Callable[[], None]) -> None:
        self.watch, self.more, self.kept = watch, more, kept

    def look(self, row: Mapping[str, float], images: Tensor, labels: Tensor) -> Mapping[str, float]:
        return self.watch.look(row, images, labels)

    def tick(self, iteration: int, iterations: int) -> None:
        self.watch.tick(iteration, iterations + self.more)

    def prepare(self, what: str, done: int, total: int) -> None:
        self.watch.prepare(what, done, total)

    def keep(self, checkpoint: Callable[[], dict[str, Any]]) -> None:
        del checkpoint
        self.kept()

    def stop(self) -> bool:
        return self.watch.stop()
