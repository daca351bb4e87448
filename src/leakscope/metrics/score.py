"""The only place where ground truth meets a reconstruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from leakscope.metrics.assign import assign
from leakscope.metrics.baseline import blind_guesses, relative
from leakscope.metrics.catalogue import METRICS
from leakscope.metrics.fsim import fsim
from leakscope.metrics.identify import chance, held_out, identified
from leakscope.metrics.intervals import wilson_interval
from leakscope.metrics.lpips import lpips_of_each
from leakscope.metrics.pairs import Comparison, UnavailableError
from leakscope.metrics.psnr import psnr
from leakscope.metrics.ssim import ssim
from leakscope.types import Reconstruction, Scores

Replay = Callable[[Tensor, Tensor], float]
"""(images, labels) -> L_sim^FL: `partial(l_sim_fl, victim, w0, delta, training, normalisation=...)`."""

Comparisons = Callable[[Tensor, Sequence[Tensor]], list[Tensor]]
"""N images with several batches, each of N images or of one image for all -> (N,) for each batch."""

RELATIVE = {"ssim": "relative_ssim", "lpips": "relative_lpips"}
LINE_UP = ("identified", "identified_best", "identified_count")
NO_CANDIDATES = "there are no held-out images of the same data set to compare with"
DIVERGED = "the attack diverged: NaN or infinity in its images or values"


def score(
    originals: Tensor,
    reconstruction: Reconstruction,
    *,
    candidates: Tensor | None,
    weights: Path | None = None,
    download: bool = True,
    replay: Replay | None = None,
) -> Scores:
    """Compare a reconstruction with the private images (N, C, H, W) in [0, 1].

    `candidates` (K, C, H, W) are other images of the same data set: the line-up of the identification, and
    what the guesses of the baseline are made from; copies of originals among them are left out. `weights` is
    the folder of the LPIPS weights, `download` allows to fetch them where they are nowhere on disk. `replay`
    adds L_sim^FL and its baseline. Scores are those of the last iterate, `*_best` those of the iterate with
    the lowest objective under its own assignment. What cannot be computed is None, with its reason in
    `missing`.
    """
    last, best = (_Guess.of(images, originals) for images in (reconstruction.images, reconstruction.best))
    pool = originals[:0] if candidates is None else held_out(candidates.to(originals), originals)
    blind = blind_guesses(pool) if len(pool) else pool
    with torch.no_grad():
        columns, missing = _compare(originals, last, best, blind, _comparisons(weights, download))
        columns |= _relative_columns(columns) if len(pool) else {}
        columns |= {"identified": _identified_column(originals, last, best, pool)} if len(pool) else {}
    metrics, baseline = _summarise(columns)
    metrics |= {"l_sim": reconstruction.l_sim, "l_sim_raw": reconstruction.l_sim_raw}
    metrics |= {"l_sim_best": reconstruction.l_sim_best}
    if replay is not None:
        metrics["l_sim_fl"] = replay(last.given, reconstruction.labels)
        if len(blind):
            baseline["l_sim_fl"] = replay(blind[-1:].expand_as(last.given), reconstruction.labels)
    missing |= {} if len(pool) else dict.fromkeys((*LINE_UP, *_relative_names(RELATIVE)), NO_CANDIDATES)
    missing |= {name: DIVERGED for name, value in metrics.items() if not math.isfinite(value)}
    intervals = {}
    if len(pool):
        intervals["identified"] = wilson_interval(int(metrics["identified_count"]), len(originals))
    return Scores(
        metrics=dict.fromkeys(missing) | {name: _or_none(value) for name, value in metrics.items()},
        baseline={name: _or_none(value) for name, value in baseline.items()},
        per_image=_per_image(columns),
        assignment=last.assignment,
        missing=missing,
        intervals=intervals,
    )


def worst_first(scores: Scores) -> tuple[int, ...]:
    """The originals from the most to the least leaked: identified first, then by relative SSIM and PSNR."""
    keys = [name for name in ("identified", "relative_ssim", "ssim", "psnr") if name in scores.per_image]
    rows = zip(*(scores.per_image[name] for name in keys), strict=True)
    leaked = [tuple(-math.inf if value is None else value for value in row) for row in rows]
    return tuple(sorted(range(len(leaked)), key=lambda i: leaked[i], reverse=True))


@dataclass(frozen=True)
class _Guess:
    """One iterate of the attack, put into the order of the originals."""

    given: Tensor
    images: Tensor
    broken: Tensor
    """(N,) bool: images that held NaN or infinity; they are grey in `images`."""
    assignment: tuple[int, ...]

    @classmethod
    def of(cls, images: Tensor, originals: Tensor) -> _Guess:
        images = images.detach().to(originals)
        order = assign(originals, images)
        mine = images[list(order)]
        broken = ~mine.isfinite().flatten(1).all(1)
        mine = torch.where(broken[:, None, None, None], 0.5, mine).clamp(0, 1)
        return cls(images, mine, broken, order)

    def masked(self, values: Tensor) -> Tensor:
        return values.masked_fill(self.broken, math.nan)


@dataclass(frozen=True)
class _Column:
    """One metric per image, (N,): of the last iterate, of the best one, of a guess without information."""

    last: Tensor
    best: Tensor | None
    blind: Tensor | None


def _comparisons(weights: Path | None, download: bool) -> dict[str, Comparisons]:
    return {
        "psnr": _with_each(psnr),
        "ssim": _with_each(ssim),
        "fsim": _with_each(fsim),
        "lpips": partial(lpips_of_each, backbone="vgg", weights=weights, download=download),
        "lpips_alex": partial(lpips_of_each, backbone="alex", weights=weights, download=download),
    }


def _with_each(compare: Comparison) -> Comparisons:
    return lambda x, others: [compare(x, y.expand_as(x)) for y in others]


def _compare(
    originals: Tensor, last: _Guess, best: _Guess, blind: Tensor, comparisons: Mapping[str, Comparisons]
) -> tuple[dict[str, _Column], dict[str, str]]:
    """A column for each metric of images, and the reasons of those that cannot be computed."""
    columns: dict[str, _Column] = {}
    missing: dict[str, str] = {}
    for name, compare in comparisons.items():
        try:
            ours, theirs, *guessed = compare(originals, [last.images, best.images, *blind[:, None]])
        except UnavailableError as reason:
            missing |= dict.fromkeys((name, f"{name}_best", *_relative_names([name])), str(reason))
        else:
            columns[name] = _Column(last.masked(ours), best.masked(theirs), _better(name, guessed))
    return columns, missing


def _better(name: str, guessed: Sequence[Tensor]) -> Tensor | None:
    """Of several guesses the one that this metric likes best on average."""
    sign = 1 if METRICS[name].higher_is_better else -1
    return max(guessed, key=lambda values: sign * float(values.mean()), default=None)


def _relative_names(names: Sequence[str] | Mapping[str, str]) -> list[str]:
    return [f"{RELATIVE[name]}{suffix}" for name in names if name in RELATIVE for suffix in ("", "_max")]


def _relative_columns(columns: Mapping[str, _Column]) -> dict[str, _Column]:
    """How far SSIM and 1 - LPIPS go beyond the guess without information, which itself is 0 by definition."""
    found = {}
    for name, column in columns.items():
        if name in RELATIVE and column.blind is not None:
            ours, guessed = (v if METRICS[name].higher_is_better else 1 - v for v in (column.last, column.blind))
            found[RELATIVE[name]] = _Column(relative(ours, guessed), None, torch.zeros_like(guessed))
    return found


def _identified_column(originals: Tensor, last: _Guess, best: _Guess, pool: Tensor) -> _Column:
    """1 for each identified original, 0 for the others; a broken image identifies nobody."""
    ours, theirs = (
        (identified(originals, guess.images, pool) & ~guess.broken).to(originals.dtype) for guess in (last, best)
    )
    return _Column(ours, theirs, torch.full_like(ours, chance(len(originals), len(pool))))


def _summarise(columns: Mapping[str, _Column]) -> tuple[dict[str, float], dict[str, float]]:
    """Means over images, with the worst image of the relative scores and the count of identified ones."""
    metrics, baseline = {}, {}
    for name, column in columns.items():
        metrics[name] = float(column.last.mean())
        if column.best is not None:
            metrics[f"{name}_best"] = float(column.best.mean())
        if column.blind is not None:
            baseline[name] = float(column.blind.mean())
        if name in RELATIVE.values():
            metrics[f"{name}_max"], baseline[f"{name}_max"] = float(column.last.max()), 0.0
    if "identified" in columns:
        metrics["identified_count"] = float(columns["identified"].last.sum())
        baseline["identified_count"] = baseline["identified"] * len(columns["identified"].last)
    return metrics, baseline


def _per_image(columns: Mapping[str, _Column]) -> dict[str, tuple[float | None, ...]]:
    """Every metric in the originals' order, and what the guess scores on each image (`baseline_ssim`)."""
    found: dict[str, Tensor | None] = {name: column.last for name, column in columns.items()}
    found |= {f"baseline_{name}": columns[name].blind for name in RELATIVE if name in columns}
    return {name: tuple(_or_none(v) for v in values.tolist()) for name, values in found.items() if values is not None}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
