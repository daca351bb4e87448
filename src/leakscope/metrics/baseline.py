"""What an attacker scores who saw no update at all, and what a reconstruction scores beyond that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leakscope.metrics.metric import Case, Column, Metric, Table


def blind_guesses(candidates: Tensor) -> Tensor:
    """Three images to answer with when nothing is known but the kind of data: (K, C, H, W) -> (3, C, H, W).

    The mean colour, the median colour (the white page of handwriting) and the mean image of other images of
    the data set. The originals have no part in them.
    """
    _, channels, height, width = candidates.shape
    pixels = candidates.transpose(0, 1).flatten(1)
    colours = torch.stack([pixels.mean(1), pixels.median(1).values])
    flat = colours.view(2, channels, 1, 1).expand(2, channels, height, width)
    return torch.cat([flat, candidates.mean(0, keepdim=True)])


def relative(similarity: Tensor, blind: Tensor) -> Tensor:
    """(sim(rec, x) - sim(base, x)) / (1 - sim(base, x)), per image.

    0 = as good as knowing nothing, 1 = a perfect copy. Cut at -1: how much worse than nothing a
    reconstruction is says nothing about leakage.

    >>> relative(torch.tensor([0.9, 0.2, 0.0]), torch.tensor([0.2, 0.2, 0.9]))
    tensor([ 0.8750,  0.0000, -1.0000])
    """
    return ((similarity - blind) / (1 - blind).clamp_min(1e-6)).clamp_min(-1)


def relative_to(base: Metric, *, tables: Sequence[Table] = ()) -> tuple[Metric, Metric]:
    """What a similarity (1 = a copy), or 1 - a distance, gives beyond the guess: the mean, and the worst image."""

    def measure(case: Case) -> Column | None:
        case.need_pool()
        column = case.column(base)
        if column is None or (blind := base.blind(column)) is None:
            return None
        ours, guessed = (values if base.higher_is_better else 1 - values for values in (column.last, blind))
        return Column(relative(ours, guessed), guesses=[torch.zeros_like(guessed)])

    similarity = base.label if base.higher_is_better else f"1 - {base.label}"
    mean = Metric(
        name=f"relative_{base.name}",
        label=f"relative {base.label}",
        description=f"{similarity} beyond a guess without information: 0 = the guess, 1 = a perfect copy",
        meaning=f"{base.label} with the score of a guess taken off: 0 is worth no more than the guess, 1 is the image "
        "itself. Negative values are worse than guessing.",
        higher_is_better=True,
        measure=measure,
        needs=f"{base.needs}, and held-out images of the same data set",
        has_best=False,
        relative_to=base.name,
        tables=tuple(tables),
    )
    worst = replace(
        mean,
        name=f"{mean.name}_max",
        label=f"{mean.label}, worst image",
        description="the same for the most leaked image",
        meaning="The same for the image that leaked most.",
        summary=torch.max,
        tables=(),
    )
    return mean, worst
