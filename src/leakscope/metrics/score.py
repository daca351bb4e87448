"""From a reconstruction and the private images to scores."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from leakscope.metrics import METRICS
from leakscope.metrics.baseline import blind_guesses
from leakscope.metrics.identify import held_out
from leakscope.metrics.metric import Case, Column, Guess, Replay
from leakscope.metrics.pairs import UnavailableError
from leakscope.types import Reconstruction, Scores

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
    """Compare a reconstruction with the private images (N, C, H, W) in [0, 1], by every metric of `METRICS`.

    `candidates` (K, C, H, W) are other images of the same data set: the line-up of the identification, and
    what the guesses of the baseline are made from; copies of originals among them are left out. `weights` is
    the folder of the LPIPS weights, `download` allows to fetch them where they are nowhere on disk. `replay`
    adds L_sim^FL and its baseline. Scores are those of the last iterate, `*_best` those of the iterate with
    the lowest objective under its own assignment. What cannot be computed is None, with its reason in
    `missing`.
    """
    pool = originals[:0] if candidates is None else held_out(candidates.to(originals), originals)
    case = Case(
        originals=originals,
        last=Guess.of(reconstruction.images, originals),
        best=Guess.of(reconstruction.best, originals),
        pool=pool,
        blind=blind_guesses(pool) if len(pool) else pool,
        found=reconstruction,
        replay=replay,
        weights=weights,
        download=download,
    )
    with torch.no_grad():
        return _scores(case)


def unscored(reconstruction: Reconstruction) -> dict[str, float | None]:
    """Every metric where the originals are not there: what the attack knows of itself, and None for the others."""
    return {name: getattr(reconstruction, name, None) for name in METRICS}


def _scores(case: Case) -> Scores:
    columns, missing = _measure(case)
    metrics = {
        key: float(METRICS[name].summary(values))
        for name, column in columns.items()
        for key, values in zip(METRICS[name].names, (column.last, column.best), strict=False)
        if values is not None
    }
    blind = {name: guess for name, column in columns.items() if (guess := METRICS[name].blind(column)) is not None}
    per_image = {name: column.last for name, column in columns.items() if METRICS[name].is_mean and column.last.dim()}
    bases = [METRICS[name].relative_to for name in per_image]
    per_image |= {f"baseline_{base}": blind[base] for base in bases if base is not None}
    missing |= {name: DIVERGED for name, value in metrics.items() if not math.isfinite(value)}
    return Scores(
        metrics=dict.fromkeys(missing) | {name: _or_none(value) for name, value in metrics.items()},
        baseline={name: _or_none(float(METRICS[name].summary(guess))) for name, guess in blind.items()},
        per_image={name: tuple(map(_or_none, values.tolist())) for name, values in per_image.items()},
        assignment=case.last.assignment,
        missing=missing,
        intervals={
            name: interval(column.last) for name, column in columns.items() if (interval := METRICS[name].interval)
        },
    )


def _measure(case: Case) -> tuple[dict[str, Column], dict[str, str]]:
    """A column for each metric that was asked for, and the reasons of those that cannot be computed."""
    columns: dict[str, Column] = {}
    missing: dict[str, str] = {}
    for name, metric in METRICS.items():
        try:
            if (column := case.column(metric)) is not None:
                columns[name] = column
        except UnavailableError as reason:
            missing |= dict.fromkeys(metric.names, str(reason))
    return columns, missing


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
