"""What a metric is: a number that says how close a reconstruction came, with all that a reader needs to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from leakscope.metrics.assign import assign
from leakscope.metrics.pairs import Comparison, UnavailableError
from leakscope.types import Reconstruction

Replay = Callable[[Tensor, Tensor], float]
"""(images, labels) -> L_sim^FL: `partial(l_sim_fl, victim, w0, delta, training, normalisation=...)`."""
Comparisons = Callable[[Tensor, Sequence[Tensor]], list[Tensor]]
"""N images with several batches, each of N images or of one image for all -> (N,) for each batch."""
Table = Literal["terminal", "report", "results"]
"""Of `leakscope audit` at its end; of all cells in the HTML report; of results/*.json, which docs are made from."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number of a result: how it is measured, how to read it, and where it is shown."""

    name: str
    """The key in cell.json."""
    label: str
    description: str
    """What exactly is computed, for somebody who would compute it again."""
    meaning: str
    """What it says, for somebody who would not."""
    higher_is_better: bool
    """Better for the attacker: the reconstruction is closer."""
    measure: Callable[[Case], Column | None]
    """None where it was not asked for; UnavailableError with the reason where it cannot be had."""
    needs: str = "the originals"
    unit: str = ""
    digits: int = 3
    share: bool = False
    """A share of the images, which the report writes as `9 of 10`."""
    beside_guess: bool = False
    """Tables set the guess without information beside it: the number alone says little."""
    has_best: bool = True
    """`NAME_best`, of the iterate with the lowest objective, is scored as well."""
    relative_to: str | None = None
    """The metric from which the guess was taken off; what the guess scores is kept for each image, too."""
    summary: Callable[[Tensor], Tensor] = torch.mean
    """From the values of all images, (N,), to the number."""
    interval: Callable[[Tensor], tuple[float, float]] | None = None
    """95 % interval of the number, from the same values."""
    tables: tuple[Table, ...] = ("terminal", "report", "results")
    revision: int = 0
    """Raise it when the numbers change: results of before then count as those of another metric."""

    @property
    def title(self) -> str:
        """With its unit, as axes name it."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def names(self) -> tuple[str, ...]:
        """Its keys in cell.json."""
        return (self.name, f"{self.name}_best") if self.has_best else (self.name,)

    @property
    def is_mean(self) -> bool:
        """Whether the number is the mean of values that are kept for each image."""
        return self.summary is torch.mean

    def blind(self, column: Column) -> Tensor | None:
        """Of several guesses the one that this metric likes best on average."""
        sign = 1 if self.higher_is_better else -1
        return max(column.guesses, key=lambda values: sign * float(values.mean()), default=None)


@dataclass(frozen=True, eq=False)
class Column:
    """What a metric measures, per image (N,) or of the whole batch ()."""

    last: Tensor
    best: Tensor | None = None
    guesses: Sequence[Tensor] = ()
    """Of each guess without information; the metric counts the one that it likes best."""


@dataclass(frozen=True, eq=False)
class Guess:
    """One iterate of the attack, put into the order of the originals."""

    given: Tensor
    images: Tensor
    broken: Tensor
    """(N,) bool: images that held NaN or infinity; they are grey in `images`."""
    assignment: tuple[int, ...]

    @classmethod
    def of(cls, images: Tensor, originals: Tensor) -> Guess:
        images = images.detach().to(originals)
        order = assign(originals, images)
        mine = images[list(order)]
        broken = ~mine.isfinite().flatten(1).all(1)
        mine = torch.where(broken[:, None, None, None], 0.5, mine).clamp(0, 1)
        return cls(images, mine, broken, order)

    def masked(self, values: Tensor) -> Tensor:
        return values.masked_fill(self.broken, math.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """All that a metric may look at: the private images, and what an attack made of the update."""

    originals: Tensor
    """(N, C, H, W) in [0, 1]."""
    last: Guess
    best: Guess
    pool: Tensor
    """(K, C, H, W): held-out images of the same data set, none of them an original; K = 0 where there are none."""
    blind: Tensor
    """(3, C, H, W): guesses without information; none without held-out images."""
    found: Reconstruction
    replay: Replay | None
    weights: Path | None
    """Folder of the LPIPS weights."""
    download: bool
    columns: dict[str, Column | UnavailableError | None] = field(default_factory=dict)
    """What was measured so far, so that nothing is measured twice."""

    def column(self, metric: Metric) -> Column | None:
        """What a metric measures here; UnavailableError with the reason where it cannot."""
        if metric.name not in self.columns:
            try:
                self.columns[metric.name] = metric.measure(self)
            except UnavailableError as reason:
                self.columns[metric.name] = reason
        found = self.columns[metric.name]
        if isinstance(found, UnavailableError):
            raise found
        return found

    def need_pool(self) -> None:
        if not len(self.pool):
            raise UnavailableError("there are no held-out images of the same data set to compare with")

    def compared(self, compare: Comparisons) -> Column:
        """Originals with the last iterate, with the best one and with each guess."""
        ours, theirs, *guesses = compare(self.originals, [self.last.images, self.best.images, *self.blind[:, None]])
        return Column(self.last.masked(ours), self.best.masked(theirs), guesses)


def of_pairs(compare: Comparison) -> Callable[[Case], Column]:
    """The measure of a function that compares two batches of images pair by pair."""
    return lambda case: case.compared(lambda x, others: [compare(x, y.expand_as(x)) for y in others])
