"""Areas, rates and intervals against references, at their edges, and by simulation."""

from __future__ import annotations

from statistics import NormalDist

import pytest
import torch
from scipy.stats import binomtest, mannwhitneyu

from leakscope.lineup.recognition import Group, recognise
from leakscope.types import stream

DRAWS = 600


def draw(members: int, others: int, auc: float, *, seed: int, spread: float = 1.0) -> Group:
    shift = NormalDist().inv_cdf(auc) * (1 + spread**2) ** 0.5
    generator = stream(seed, "scores")
    return Group(shift + spread * torch.randn(members, generator=generator), torch.randn(others, generator=generator))


def test_area_is_that_of_the_rank_test_with_ties_for_a_half() -> None:
    members, others = torch.tensor([3.0, 1.0, 2.0, 2.0]), torch.tensor([2.0, 0.0, 1.0, 5.0, 2.0])
    found = recognise([Group(members, others)])
    rank = mannwhitneyu(members.numpy(), others.numpy()).statistic
    assert found.auc == pytest.approx(rank / 20)


def test_clients_are_compared_within_themselves() -> None:
    one = draw(8, 100, 0.8, seed=1)
    far = Group(one.members + 1000, one.others + 1000)
    both, alone = recognise([one, far]), recognise([one])
    assert both.auc == pytest.approx(alone.auc)
    assert both.tpr1 == alone.tpr1
    assert both.members == 16
    (low, high), (wide_low, wide_high) = both.intervals["auc"], alone.intervals["auc"]
    assert wide_low < low < high < wide_high


@pytest.mark.parametrize("members", [4, 8, 50])
@pytest.mark.parametrize("auc", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_intervals_cover(members: int, auc: float, spread: float) -> None:
    """At 95 %, 600 draws cover in 94 % or more by chance of about 0.9; an interval that is too short does not."""
    inside = 0
    for seed in range(DRAWS):
        low, high = recognise([draw(members, 120, auc, seed=seed, spread=spread)]).intervals["auc"]
        inside += low <= auc <= high
    assert inside / DRAWS >= 0.935


def test_four_of_four_is_not_certainty() -> None:
    low, high = recognise([Group(torch.arange(4.0) + 1000, torch.arange(200.0))]).intervals["auc"]
    assert high == 1
    assert 0.45 < low < 0.55


def test_rate_allows_one_in_a_hundred() -> None:
    others = torch.arange(200.0)
    members = torch.tensor([500.0, 198.5, 197.5, 197.0, 3.0])
    found = recognise([Group(members, others)])
    assert found.tpr1 == 3 / 5
    theirs = binomtest(3, 5).proportion_ci(method="wilson")
    assert found.intervals["tpr1"] == pytest.approx((theirs.low, theirs.high))


def test_too_few_others_for_a_rate_over_all_clients() -> None:
    one = recognise([draw(50, 60, 0.9, seed=0)])
    assert one.tpr1 is None
    assert "60 other images" in one.missing["tpr1"]
    assert one.auc is not None
    assert recognise([draw(50, 60, 0.9, seed=seed) for seed in (0, 1)]).tpr1 is not None


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (Group(torch.randn(5), torch.randn(0)), "no images that were trained on together with others"),
        (Group(torch.tensor([1.0, float("nan")]), torch.randn(300)), "not finite"),
    ],
)
def test_what_cannot_be_measured_is_null_with_the_reason(group: Group, why: str) -> None:
    found = recognise([group])
    assert found.auc is None
    assert found.tpr1 is None
    assert not found.intervals
    assert why in found.missing["auc"]
    assert why in found.missing["tpr1"]
