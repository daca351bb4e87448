from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.errors import InputError
from leakscope.metrics.assign import assign, pairwise_mse
from reference_images import crops

IMAGES = crops(12, side=8)


@settings(deadline=None)
@given(order=st.permutations(range(12)), noise=st.floats(0, 0.05))
def test_any_order_of_the_reconstructions_is_undone(order: list[int], noise: float) -> None:
    x = IMAGES
    spoilt = x + noise * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    found = assign(x, spoilt[order])
    assert [order[j] for j in found] == list(assign(x, spoilt))
    assert sorted(found) == list(range(12))


def test_total_error_is_the_least_of_all_pairings() -> None:
    x, y = torch.rand(2, 5, 1, 3, 3, generator=torch.Generator().manual_seed(2)).unbind()
    cost = pairwise_mse(x, y)
    totals = {order: sum(float(cost[i, j]) for i, j in enumerate(order)) for order in itertools.permutations(range(5))}
    assert assign(x, y) == min(totals, key=lambda order: totals[order])


def test_pairwise_errors_are_those_of_the_pairs() -> None:
    x, y = crops(3, side=8), crops(4, side=8, seed=1)
    wanted = (x[:, None].double() - y[None].double()).square().mean((2, 3, 4))
    assert torch.allclose(pairwise_mse(x, y), wanted, atol=1e-12)


def test_more_reconstructions_than_originals_are_chosen_from() -> None:
    x = crops(6, side=8)
    assert assign(x[[4, 1]], x) == (4, 1)


def test_broken_reconstructions_go_to_whoever_is_left() -> None:
    x = crops(3, side=8)
    y = x[[2, 0, 1]].clone()
    y[0, 0, 0, 0] = torch.nan
    assert assign(x, y) == (1, 2, 0)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (2, 1, 8, 8), (2, 3, 8, 9)])
def test_what_cannot_be_paired_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="cannot be paired"):
        assign(torch.zeros(2, 3, 8, 8), torch.zeros(shape))
