"""Which reconstruction belongs to which original: an attack gives its images back in no particular order."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakscope.errors import Problem, refuse


def assign(originals: Tensor, reconstructions: Tensor) -> tuple[int, ...]:
    """The one-to-one pairing with the least total squared error (Hungarian method).

    (N, C, H, W) and (M, C, H, W) with M >= N -> for each original the index of its reconstruction. Every
    metric uses this one permutation. Reconstructions that hold NaN or infinity are handed out last.

    >>> images = torch.eye(3).view(3, 1, 1, 3)
    >>> assign(images, images[[2, 0, 1]])
    (1, 2, 0)
    """
    if originals.shape[1:] != reconstructions.shape[1:] or len(reconstructions) < len(originals):
        shapes = f"{tuple(originals.shape)} and {tuple(reconstructions.shape)}"
        refuse(
            [
                Problem(
                    f"originals and reconstructions of {shapes} cannot be paired",
                    fix="give images of one size, at least one reconstruction for each original",
                )
            ]
        )
    cost = pairwise_mse(originals, reconstructions)
    _, columns = linear_sum_assignment(cost.nan_to_num(nan=1e6, posinf=1e6).numpy())
    return tuple(int(column) for column in columns)


def pairwise_mse(x: Tensor, y: Tensor) -> Tensor:
    """(N, ...) and (M, ...) -> (N, M) mean squared errors, on the CPU in double precision."""
    a, b = (images.detach().cpu().double().flatten(1) for images in (x, y))
    squares = a.square().sum(1)[:, None] + b.square().sum(1)[None]
    return (torch.addmm(squares, a, b.T, alpha=-2) / a.shape[1]).clamp_min(0)
