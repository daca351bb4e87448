"""GI-NAS (Yu et al. 2025): an architecture is chosen by its loss before any training, with those very weights."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from leakscope.attacks.composition import Composition, Keep, Prepared, State
from leakscope.attacks.descent import declare
from leakscope.attacks.generators.base import Generated, bare
from leakscope.attacks.generators.space import LATENT, LEVELS, OPERATORS, Operator, SearchedNet
from leakscope.attacks.known import Known
from leakscope.attacks.watch import Watch
from leakscope.types import stream


@dataclass(frozen=True)
class Candidate:
    """A point of the search space with the seed of its weights."""

    skips: tuple[bool, ...]
    """25 switches."""
    operator: Operator
    seed: int

    def pack(self) -> Tensor:
        """(27,) int64."""
        return torch.tensor([*self.skips, OPERATORS.index(self.operator), self.seed])

    @classmethod
    def unpack(cls, packed: Tensor) -> Candidate:
        *skips, operator, seed = packed.tolist()
        return cls(tuple(map(bool, skips)), OPERATORS[operator], seed)

    def __str__(self) -> str:
        return f"{sum(self.skips)} skips, {self.operator}"


def candidates(seed: int) -> Iterator[Candidate]:
    """Random points of the search space without end."""
    draw = stream(seed, "gi-nas candidates")
    while True:
        skips = tuple(map(bool, torch.randint(2, (LEVELS**2,), generator=draw).tolist()))
        operator = OPERATORS[int(torch.randint(len(OPERATORS), (), generator=draw))]
        yield Candidate(skips, operator, int(torch.randint(2**31, (), generator=draw)))


@dataclass(frozen=True, kw_only=True)
class SearchedGenerator(Generated):
    """The network of one candidate; the first one of all where nothing was searched.

    Every candidate is another network: to compile one takes minutes, and no other cell could use it.
    """

    traceable: ClassVar[bool] = False
    full: ClassVar[int] = 128
    lr: float = 1e-3
    candidate: Candidate = field(default_factory=lambda: next(candidates(0)), repr=False)

    def latent(self, known: Known) -> tuple[int, ...]:
        unit = 2**LEVELS
        side = unit * -(-max(known.shape[1:]) // unit)
        return known.n, LATENT, side, side

    def start(self, known: Known, generator: torch.Generator) -> int:  # noqa: ARG002
        return self.candidate.seed

    def network(self, known: Known) -> nn.Module:
        return SearchedNet(*self._sizes(known))

    def skeleton(self, known: Known) -> nn.Module:
        return bare(SearchedNet, *self._sizes(known))

    def _sizes(self, known: Known) -> tuple[tuple[bool, ...], Operator, int, int]:
        return self.candidate.skips, self.candidate.operator, known.shape[0], self.width or self.full


@dataclass(frozen=True, kw_only=True)
class Search:
    """Scores candidates by the matching loss of their first images, all with the same latent; the lowest wins."""

    count: int

    def __call__(
        self, attack: Composition, known: Known, *, seed: int, watch: Watch, before: Prepared | None, keep: Keep
    ) -> Prepared:
        scores: list[float] = list(before.state["scores"]) if before and before.state else []
        seconds = before.seconds if before else 0.0
        names = candidates(seed)
        tried = [next(names) for _ in range(self.count)]
        while len(scores) < self.count and not watch.stop():
            began = time.perf_counter()
            scores.append(score(with_candidate(attack, tried[len(scores)]), known, seed))
            seconds += time.perf_counter() - began
            watch.prepare("candidates", len(scores), self.count)
            keep(lambda: found(tried, scores, seconds))  # noqa: B023 - called at once or not at all
        return found(tried, scores, seconds)

    def compose(self, attack: Composition, found: State) -> Composition:
        return with_candidate(attack, Candidate.unpack(found["candidate"]))

    def steps(self, iterations: int) -> float:  # noqa: ARG002
        return self.count  # a score is an iteration without the way back


def found(tried: list[Candidate], scores: list[float], seconds: float) -> Prepared:
    """The best of the candidates that have a score."""
    best = min(range(len(scores)), key=scores.__getitem__, default=0)
    finished = len(scores) == len(tried)
    note: dict[str, object] = {"candidates": len(scores), "chosen": str(tried[best])}
    if scores:
        note |= {"score": scores[best], "median": statistics.median(scores)}
    return Prepared(
        found={"candidate": tried[best].pack()},
        seconds=seconds,
        notes={"search": note},
        finished=finished,
        state=None if finished else {"scores": list(scores)},
    )


def with_candidate(attack: Composition, candidate: Candidate) -> Composition:
    assert isinstance(attack.images, SearchedGenerator)
    return replace(attack, images=replace(attack.images, candidate=candidate))


def score(attack: Composition, known: Known, seed: int) -> float:
    """The matching loss at the start, without priors; a defense that is imitated is imitated here too."""
    v = {name: variable.start for name, variable in declare(attack, known, seed).items()}
    with torch.no_grad():
        x = attack.images.decode(v, known)
        y = torch.softmax(v["y"], dim=1) if known.labels is None else known.labels
        weights = known.split(attack.surrogate.state(v, known))
        g = known.join(known.gradient(weights, x, y).update)
        return float(attack.matching.loss(attack.matching.calibrate(v, g), known))
