"""Counts without a bias in the last layer, by random images. Not yet rounded."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.labels.evidence import Evidence
from leakscope.types import stream

DUMMIES = 1000
"""Random images for the moments that the rule needs."""


def geng(evidence: Evidence) -> Tensor:
    """Geng et al. (2021) as extended to many steps by Dimitrov et al. (2022); needs no bias.

    n_c(j) = N p_c(j) - N sum_k G_W[c, k] / (O(j) T), averaged over the steps j; p, the mean softmax, and O, the mean
    sum of features, come from random images at w0 and wT and are interpolated between.
    """
    like = evidence.w0[evidence.head.weight]
    x = torch.randn(DUMMIES, *evidence.victim.shape, generator=stream(0, "label dummies")).to(like)
    ends = []
    for t in (0.0, 1.0):
        h = torch.cat([evidence.features(t, chunk) for chunk in torch.split(x, 250)])
        ends.append((evidence.softmax(t, h).mean(dim=0), h.sum(dim=1).mean()))
    (p0, o0), (p1, o1) = ends
    share = torch.arange(evidence.steps, dtype=p0.dtype) / evidence.steps
    sums = torch.lerp(o0, o1, share)
    rows = evidence.weight.sum(dim=1) * evidence.n / evidence.steps
    return evidence.n * torch.lerp(p0, p1, share.mean()) - rows * (1 / sums).mean()
