"""How well scores tell members from others: area under the curve, true positives at 1 % false positives, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leakscope.metrics.intervals import wilson, wilson_interval

RATE = 0.01
"""The share of others that may be taken for members."""
ENOUGH = round(1 / RATE)
"""So many others that this share is at least one image."""


@dataclass(frozen=True)
class Group:
    """The scores of one client's images; scores of different clients are never compared with each other."""

    members: Tensor
    """(m,): of images that were trained on."""
    others: Tensor
    """(k,): of images of the same kind that were not."""


@dataclass(frozen=True)
class Recognition:
    """How well an image that was trained on is told from one that was not, over one client or several."""

    members: int
    others: int
    auc: float | None
    """How often a member scores higher than another image of its client; 0.5 is chance."""
    tpr1: float | None
    """The share of members that score higher than 99 % of the others; 0.01 is chance."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """95 % intervals of `auc` and `tpr1`."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What is null, with the reason."""


def recognise(groups: Sequence[Group]) -> Recognition:
    """Of one client, or pooled over several clients of one recipe, each compared within itself."""
    groups = [group for group in groups if len(group.members) and len(group.others)]
    members, others = sum(len(group.members) for group in groups), sum(len(group.others) for group in groups)
    if why := _nothing(groups):
        return Recognition(members, others, None, None, missing={"auc": why, "tpr1": why})
    auc, spread = _auc(groups)
    intervals = {"auc": wilson(auc, spread)}
    if others < ENOUGH:
        why = f"{others} other images: 1 % of them is less than one; {ENOUGH} are needed, over all clients together"
        return Recognition(members, others, auc, None, intervals, {"tpr1": why})
    hits = _hits(groups)
    intervals["tpr1"] = wilson_interval(hits, members)
    return Recognition(members, others, auc, hits / members, intervals)


def _nothing(groups: Sequence[Group]) -> str | None:
    if not groups:
        return "there are no images that were trained on together with others that were not"
    if not all(bool(part.isfinite().all()) for group in groups for part in (group.members, group.others)):
        return "some scores are not finite numbers: the update or the model diverged"
    return None


def _auc(groups: Sequence[Group]) -> tuple[float, float]:
    """theta = mean_i U_i, and the size of a sample of hits and misses with the same variance, for Wilson's interval.

    U_i is the share of its client's others that member i beats, W_j the share of its client's members that beat other
    image j. The variance of theta is var(U) / m + var(W) sum_c (m_c / m)^2 / k_c (DeLong). Their sizes relative to
    theta (1 - theta) are estimated with one image more at each end, 0 and 1: without, they are zero where every member
    beats every other, and the interval a point. Wilson's interval then takes the variance at its own ends.
    """
    beaten = [_wins(group.members, group.others) for group in groups]
    beating = [1 - _wins(group.others, group.members) for group in groups]
    members = sum(len(each) for each in beaten)
    share = sum((len(u) / members) ** 2 / len(w) for u, w in zip(beaten, beating, strict=True))
    every = torch.cat(beaten)
    return float(every.mean()), 1 / (
        _relative_variance(every) / members + _relative_variance(torch.cat(beating)) * share
    )


def _wins(scores: Tensor, against: Tensor) -> Tensor:
    """The share of `against` that each score exceeds, ties for a half."""
    ordered = against.double().sort().values
    below, upto = (torch.searchsorted(ordered, scores.double(), right=right) for right in (False, True))
    return (below + upto).double() / (2 * len(against))


def _relative_variance(shares: Tensor) -> float:
    """var / (mean (1 - mean)), with one 0 and one 1 more: 1 for hits and misses, less for values between."""
    more = torch.cat([shares, torch.tensor([0.0, 1.0], dtype=shares.dtype)])
    mean = more.mean()
    return float((more.square().mean() - mean.square()) / (mean * (1 - mean)))


def _hits(groups: Sequence[Group]) -> int:
    """Members above all but 1 % of the others; clients are brought to one scale by their others' mean and spread."""
    members, others = [], []
    for group in groups:
        spread, mean = torch.std_mean(group.others.double(), correction=0)
        scale = 1 / spread if spread > 0 else torch.ones_like(spread)
        members.append((group.members.double() - mean) * scale)
        others.append((group.others.double() - mean) * scale)
    ordered = torch.cat(others).sort(descending=True).values
    return int((torch.cat(members) > ordered[int(RATE * len(ordered))]).sum())
