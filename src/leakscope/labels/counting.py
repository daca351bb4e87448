"""Counts per class: rounding, comparing, and turning them into labels."""

from __future__ import annotations

import torch
from torch import Tensor


def largest_remainder(values: Tensor, n: int) -> Tensor:
    """Whole counts (K,) that add up to n: round down, then give what is left to the largest remainders.

    Where the floors already exceed n, the entries that stand closest to their floor lose one each.

    >>> largest_remainder(torch.tensor([1.6, -0.2, 0.7, 0.1]), 3).tolist()
    [2, 0, 1, 0]
    """
    wanted = values.detach().cpu().double().nan_to_num().clamp(min=0)
    counts = wanted.floor()
    missing = n - int(counts.sum())
    while missing > 0:
        chosen = (wanted - counts).argsort(descending=True, stable=True)[:missing]
        counts[chosen] += 1
        missing -= len(chosen)
    for _ in range(-missing):
        counts[torch.where(counts > 0, wanted - counts, torch.inf).argmin()] -= 1
    return counts.long()


def expand(counts: Tensor) -> Tensor:
    """Counts (K,) -> labels (N,) int64 in ascending order; which image has which label is not known."""
    return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts.long())


def label_error(estimated: Tensor, true: Tensor) -> float:
    """sum |n_c - n_c'| / 2: how many of the N labels are wrong, for counts (K,) of the same sum."""
    return float((estimated.cpu().double() - true.cpu().double()).abs().sum()) / 2


def relabel(labels: Tensor, counts: Tensor) -> Tensor:
    """Labels (N,) with the given counts in which as many images as possible keep theirs.

    >>> relabel(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 1])).tolist()
    [0, 2, 1]
    """
    left = counts.clone().cpu().long()
    new = labels.clone()
    free = []
    for place, label in enumerate(labels.tolist()):
        if left[label] > 0:
            left[label] -= 1
        else:
            free.append(place)
    new[free] = expand(left).to(new)
    return new
