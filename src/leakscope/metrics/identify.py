"""Identification: would a reconstruction let somebody pick the private image out of a line-up?"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from leakscope.metrics.assign import pairwise_mse
from leakscope.metrics.intervals import wilson_interval
from leakscope.metrics.metric import Case, Column, Metric

SAME = 1e-10  # mean squared error (100 dB) below which a candidate is the original itself

FLAT = 1e-5  # standard deviation below which only rounding errors are left of an image


def held_out(candidates: Tensor, originals: Tensor) -> Tensor:
    """The candidates that are no copies of an original: data sets repeat images, and twins look the same."""
    if not len(candidates):
        return candidates
    return candidates[(pairwise_mse(candidates, originals) > SAME).all(1).to(candidates.device)]


def identified(originals: Tensor, reconstructions: Tensor, candidates: Tensor) -> Tensor:
    """Is each original nearer to its own reconstruction than all K candidates are? -> (N,) bool.

    Near means a high Pearson correlation of all pixel values (all channels together): attacks that recover
    the content often lose contrast and brightness, to which the correlation is indifferent and the squared
    error is not. `reconstructions` are in the order of the originals, `candidates` (K, C, H, W) are other
    images of the data set.

    >>> images = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> pale = 0.5 + 0.2 * (images - 0.5)
    >>> identified(images[:2], pale[:2], images[2:])
    tensor([True, True])
    """
    seen = _standardised(reconstructions)
    own = (seen * _standardised(originals)).sum(1)
    other = (seen @ _standardised(candidates).T).amax(1) if len(candidates) else torch.full_like(own, -1.0)
    return (own > other) & (own > 0)


def chance(n: int, candidates: int) -> float:
    """The most that N guesses without information identify: N / (N + K).

    A single guess would hit with 1 / (1 + K). But each original is handed the best-fitting of the N guesses,
    and one of N originals heads a line-up of N + K exchangeable images with probability N / (N + K).

    >>> chance(1, 199), chance(50, 950)
    (0.005, 0.05)
    """
    return n / (n + candidates)


def _standardised(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, C H W) of mean 0 and length 1: products are correlations; flat images are 0."""
    flat = images.flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    length = centred.square().sum(1, keepdim=True).sqrt()
    return torch.where(length > FLAT * flat.shape[1] ** 0.5, centred / length, 0)


def _measure(case: Case) -> Column:
    """1 for each identified original, 0 for the others; a broken image identifies nobody."""
    case.need_pool()
    ours, theirs = (
        (identified(case.originals, guess.images, case.pool) & ~guess.broken).to(case.originals.dtype)
        for guess in (case.last, case.best)
    )
    return Column(ours, theirs, [torch.full_like(ours, chance(len(ours), len(case.pool)))])


def _count(case: Case) -> Column | None:
    """The same hits, and the number of them that chance gives: its share, as a number of the batch, times N."""
    column = case.column(IDENTIFIED)
    if column is None:
        return None
    expected = [float(share.mean()) * len(column.last) for share in column.guesses]
    return Column(column.last, guesses=[torch.tensor(value, dtype=torch.float64) for value in expected])


IDENTIFIED = Metric(
    name="identified",
    label="identified",
    description="fraction of originals nearer to their reconstruction than all held-out images",
    meaning="Share of images that are nearest to their own reconstruction among other, held-out images. An identified "
    "image has been singled out, however blurred it looks. The interval is Wilson's, 95 %.",
    higher_is_better=True,
    measure=_measure,
    needs="the originals and held-out images of the same data set",
    digits=2,
    share=True,
    interval=lambda hits: wilson_interval(int(hits.sum()), len(hits)),
    tables=("terminal", "report"),
)
IDENTIFIED_COUNT = replace(
    IDENTIFIED,
    name="identified_count",
    label="identified images",
    description="number of originals that were identified",
    meaning="How many images have been singled out.",
    measure=_count,
    digits=0,
    share=False,
    has_best=False,
    summary=torch.sum,
    interval=None,
    tables=(),
)
