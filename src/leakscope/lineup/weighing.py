"""Which gradients does the update need? All suspects are weighed at once.

The update is taken for a sum of gradients and something else that looks like noise,

    delta = sum_i sum_s a_is u_is + e,    a_is ~ N(0, tau^2),    e ~ N(0, sigma^2 I),

where u_is is the gradient of image i at state s of the client's path, scaled to length one. What looks like the images
that were trained on, but was not, has no share in the update that they do not explain better. References are images
that the client is known not to hold; they are seen at one state, with a variance of rho tau^2, and take up what no
suspect explains. sigma, tau and rho are those under which this update is likeliest (empirical Bayes): nothing is chosen
by the truth, and no defense has to be declared; noise shows as a large sigma.

Everything follows from inner products. With K the Gram matrix of all u, b = <u, delta>, lambda = sigma^2 / tau^2,
M = (K + lambda)^-1 and a = M b, the score of image i is the matched filter for u_i = sum_s u_is against all that the
other images and the noise may add up to, S_i, in standard deviations; M_i is the block of M that belongs to image i:

    z_i = <u_i, S_i^-1 delta> / sqrt(<u_i, S_i^-1 u_i>) = 1^T M_i^-1 a_i / (sigma sqrt(1^T (M_i^-1 - lambda) 1)).

It does not change when the update is scaled, as clipping does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from leakscope.lineup.gram import Products

RATIOS = tuple(10.0 ** (power / 4) for power in range(-24, 17))
"""lambda = sigma^2 / tau^2: four to the decade, from an update that is explained to one that is noise."""
SHARES = (0.01, 0.1, 1.0)
"""rho: how freely references take part."""


@dataclass(frozen=True)
class Weighing:
    """Scores of the suspects, and under which assumptions the update is likeliest."""

    scores: Tensor
    """(k,): z_i, in standard deviations."""
    noise: float
    """sigma: the size of what no image explains, per coordinate."""
    ratio: float
    """lambda."""
    share: float
    """rho."""


def weigh(products: Products, *, suspects: int, states: int, energy: float, coordinates: int) -> Weighing:
    """Columns: the suspects at the first state, at the second, ..., then the references; energy = |delta|^2."""
    if energy == 0 or not bool(products.gram.isfinite().all() and products.slopes.isfinite().all()):
        return Weighing(torch.full((suspects,), 0.0 if energy == 0 else math.nan), math.sqrt(energy), 1.0, 1.0)
    k = suspects * states
    scale = products.gram.diagonal().clamp_min(torch.finfo(torch.float64).tiny).rsqrt()
    gram, slopes = (products.gram * scale * scale[:, None]).cpu(), (products.slopes * scale).cpu()
    fits = _fits(gram, slopes, k, energy, coordinates)
    _, ratio, share, variance = max(fits, key=lambda fit: fit[0])
    gram, slopes = _with_share(gram, slopes, k, share)
    inverse = torch.linalg.inv(gram + ratio * torch.eye(len(gram), dtype=gram.dtype))
    weights = (inverse @ slopes)[:k].view(states, suspects).T
    own = torch.arange(k).view(states, suspects).T
    blocks = torch.linalg.inv(inverse[own[:, :, None], own[:, None, :]])
    along = (blocks @ weights[:, :, None]).sum((1, 2))
    size = blocks.sum((1, 2)) - ratio * states
    scores = along / (variance * size.clamp_min(torch.finfo(torch.float32).eps)).sqrt()
    return Weighing(scores, math.sqrt(variance), ratio, share)


def _fits(
    gram: Tensor, slopes: Tensor, k: int, energy: float, coordinates: int
) -> Iterator[tuple[float, float, float, float]]:
    """(log-likelihood, lambda, rho, sigma^2) on the grid, with the likeliest sigma for each lambda and rho."""
    for share in SHARES if len(gram) > k else (1.0,):
        part, along = _with_share(gram, slopes, k, share)
        values, vectors = torch.linalg.eigh(part)
        values, explained = values.clamp_min(0), (vectors.T @ along).square()
        for ratio in RATIOS:
            rest = energy - float((explained / (values + ratio)).sum())
            variance = max(rest, 1e-12 * energy) / coordinates
            likelihood = -coordinates * math.log(variance) - float((values / ratio).log1p().sum())
            yield likelihood / 2, ratio, share, variance


def _with_share(gram: Tensor, slopes: Tensor, k: int, share: float) -> tuple[Tensor, Tensor]:
    scale = torch.ones(len(gram), dtype=gram.dtype)
    scale[k:] = math.sqrt(share)
    return gram * scale * scale[:, None], slopes * scale
