"""What an attacker scores who saw no update at all, and what a reconstruction scores beyond that."""

from __future__ import annotations

import torch
from torch import Tensor


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
