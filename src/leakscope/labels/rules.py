"""Rules from the literature, for comparison. Each gives counts (K,), not yet rounded."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.labels.evidence import Evidence
from leakscope.labels.identity import mean_feature
from leakscope.types import stream

DUMMIES = 1000
"""Random images for the moments that Geng et al. need."""
ILRG_SCALE = 0.01
"""alpha of iLRG: how far logits of a recovered embedding are trusted."""


def idlg(evidence: Evidence) -> Tensor:
    """iDLG (Zhao et al. 2020): the class with the smallest row sum of G_W, made for one image and h >= 0.

    For N images the N smallest classes are taken once each; beyond K, the round begins again.
    """
    order = evidence.weight.sum(dim=1).argsort(stable=True)
    counts = torch.full_like(evidence.weight[:, 0], evidence.n // len(order))
    counts[order[: evidence.n % len(order)]] += 1
    return counts


def llg(evidence: Evidence) -> Tensor:
    """LLG (Wainakh et al. 2022) on the row sums of G_W, impact m = (1 + 1/K) / N * sum of the negative ones."""
    rows = evidence.weight.sum(dim=1)
    return greedy(rows, evidence.n, impact=(1 + 1 / len(rows)) * negative_sum(rows) / evidence.n)


def llg_bias(evidence: Evidence) -> Tensor:
    """The same greedy rule on G_b, impact m = sum of the negative entries / N."""
    bias = evidence.need_bias("llg-bias")
    return greedy(bias, evidence.n, impact=negative_sum(bias) / evidence.n)


def greedy(signal: Tensor, n: int, *, impact: Tensor) -> Tensor:
    """Every class with a negative signal once, the most negative first; then always the lowest, until n are taken."""
    left, counts = signal.clone(), torch.zeros_like(signal)
    first = [c for c in signal.argsort(stable=True).tolist() if signal[c] < 0][:n]
    for taken in range(n):
        chosen = first[taken] if taken < len(first) else int(left.argmin())
        counts[chosen] += 1
        left[chosen] -= impact
    return counts


def ilrg(evidence: Evidence) -> Tensor:
    """iLRG (Ma et al. 2023): class embeddings e_c = G_W[c] / G_b[c], P_c = softmax(alpha (W e_c + b)), least squares.

    sum_j n_j P_j[c] - n_c = N G_b[c] / T and sum_c n_c = N. Made for one gradient; here the mean one of T steps.
    """
    bias = evidence.need_bias("ilrg")
    known = bias.abs() > 1e-12 * bias.abs().max()
    embedding = mean_feature(evidence).expand_as(evidence.weight).clone()
    embedding[known] = evidence.weight[known] / bias[known, None]
    assert evidence.head.bias is not None
    w, b = (evidence.w0[name].cpu().double() for name in (evidence.head.weight, evidence.head.bias))
    p = torch.softmax(ILRG_SCALE * (embedding @ w.T + b), dim=1)
    system = torch.cat([p.T - torch.eye(len(b), dtype=p.dtype), torch.ones(1, len(b), dtype=p.dtype)])
    target = torch.cat([evidence.n * bias / evidence.steps, torch.tensor([float(evidence.n)], dtype=p.dtype)])
    counts: Tensor = torch.linalg.pinv(system) @ target
    return counts


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


def negative_sum(signal: Tensor) -> Tensor:
    """The sum of the negative entries."""
    return signal.clamp(max=0).sum()
