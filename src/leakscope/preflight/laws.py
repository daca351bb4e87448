"""What the last layer and the batch norms of every honest update obey, whatever the images were.

With G_b = sum of the T bias gradients of the last layer, p the softmax and y the targets, a step's bias gradient is
the batch mean of p - y. So sum_c G_b[c] = 0, and S_c = n_c + (N / T) G_b[c] is the softmax mass of class c: never
negative. Both hold exactly for SGD on cross-entropy with batches of one size, for fresh and for trained models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakscope.errors import InputError
from leakscope.labels import Evidence
from leakscope.labels.identity import mean_feature, path_softmax
from leakscope.types import LocalTraining, Weights
from leakscope.victims import Victim

PROBES = 16
UNIFORM = 0.7
"""L1 distance of a softmax from the uniform one up to which a net counts as untrained."""
PULL = 0.3
"""Expected pull on the classes (L1, of at most 2) below which its scale and sign say nothing."""
FILTERS = 8
"""Fewer filters than this make no median."""
SMALL = 0.05
"""Relative change of a filter up to which its update can be read as its gradient."""


@dataclass(frozen=True)
class LastLayer:
    """Statistics of the update of the last layer's bias, in units of the N images."""

    sum: float
    """|sum_c G_b[c]| / sum_c |G_b[c]|: 0 for softmax cross-entropy."""
    size: float
    """sum_c |G_b[c]| / T: at most 2, as both p and y add up to one."""
    missing: float | None
    """Share of the N images by which some S_c is negative; None where the labels are not known."""
    cosine: float | None
    """Direction of the observed pull towards the labels against the expected one: 1, and -1 with w0 and wT swapped."""
    scale: float | None
    """The observed pull towards the labels against the one expected from the softmax on the way from w0 to wT.

    About 1 (development clients: 0.59 to 1.01), off by what lr is off; both are None where the labels are not known,
    or spread so evenly that no pull is expected.
    """
    fresh: bool
    """Whether the net has learnt nothing yet at w0 and little at wT, so a small gradient does not mean a good fit."""


def last_layer(evidence: Evidence, labels: Tensor | None) -> LastLayer | None:
    """The statistics, or None where the model has no bias on its logits."""
    try:
        bias = evidence.bias
    except InputError:
        return None
    if bias is None or not evidence.direct:
        return None
    total = float(bias.abs().sum())
    pull = bias / evidence.steps
    missing = cosine = scale = None
    fresh = False
    if labels is not None:
        share = target_share(labels, len(bias))
        missing = float(torch.relu(-(share + pull)).sum())
        path = path_softmax(evidence, mean_feature(evidence))
        expected = path.mean(dim=0) - share
        if float(expected.abs().sum()) > PULL:
            scale = float(pull @ expected / expected.square().sum())
            cosine = float(torch.nn.functional.cosine_similarity(pull, expected, dim=0))
        fresh = is_fresh(evidence) and bool((path[-1] - path[0]).abs().sum() < (share - path[0]).abs().sum() / 2)
    sum_ = abs(float(bias.sum())) / max(total, 1e-300)
    return LastLayer(sum_, total / evidence.steps, missing, cosine, scale, fresh)


def target_share(labels: Tensor, classes: int) -> Tensor:
    """(K,): mean of the targets, from class indices (N,) or soft targets (N, K)."""
    if labels.dim() == 2:
        return labels.double().mean(dim=0)
    return torch.bincount(labels, minlength=classes).double() / len(labels)


def unevenness(training: LocalTraining, n: int) -> float:
    """How far the mass law may be off where the last batch of an epoch is short, as a share of the images.

    A short batch of b images weighs 1 / steps of an epoch instead of b / N; over the epochs this averages out.
    """
    steps = math.ceil(n / training.batch_size)
    short = n - (steps - 1) * training.batch_size
    return (1 / steps - short / n) / math.sqrt(training.epochs)


def is_fresh(evidence: Evidence) -> bool:
    """At w0 random images and the mean feature of the private ones get nearly the same probability for every class."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(PROBES, *evidence.victim.shape, generator=generator)
    with torch.no_grad():
        answers = evidence.victim.call(evidence.state(0.0), evidence.victim.buffers(), x).double().softmax(dim=1)
    answers = torch.cat([answers, evidence.softmax(0.0, mean_feature(evidence)[None])])
    return float((answers - 1 / answers.shape[1]).abs().sum(dim=1).max()) < UNIFORM


def norm_alignment(victim: Victim, w0: Weights, delta: Weights) -> float | None:
    """Median of |cos(w, delta)| sqrt(d) over the filters (d,) that a batch norm follows; None where there are none.

    In train mode the norm takes the scale of a filter out again, so its gradient is orthogonal to it. In eval mode the
    cosine is that of unrelated directions, 0.67 in these units.
    """
    found = []
    for name in normed_filters(victim.module):
        if name not in delta:
            continue
        w, d = (value.detach().double().flatten(1) for value in (w0[name] - delta[name] / 2, delta[name]))
        moved = d.norm(dim=1) / w.norm(dim=1).clamp_min(1e-300)
        cosine = torch.nn.functional.cosine_similarity(w, d, dim=1).abs() * math.sqrt(w.shape[1])
        found.append(cosine[(moved > 0) & (moved < SMALL)])
    seen = torch.cat(found) if found else torch.zeros(0)
    return float(seen.median()) if len(seen) >= FILTERS else None


def normed_filters(module: nn.Module) -> list[str]:
    """Names of convolution and linear weights that a batch norm of the same width follows."""
    names = []
    before: tuple[str, int] | None = None
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.conv._ConvNd | nn.Linear):
            before = (f"{name}.weight" if name else "weight", part.weight.shape[0])
        elif isinstance(part, nn.modules.batchnorm._BatchNorm) and before and before[1] == part.num_features:
            names.append(before[0])
            before = None
    return names
