"""Counts: rounding, comparing, expanding, relabelling."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.labels import expand, label_error, largest_remainder, relabel

VALUES = st.lists(st.floats(-5, 20), min_size=1, max_size=30)
COUNTS = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@settings(deadline=None)
@given(values=VALUES, n=st.integers(0, 120))
def test_rounding_adds_up_and_is_never_negative(values: list[float], n: int) -> None:
    counts = largest_remainder(torch.tensor(values), n)
    assert counts.dtype == torch.int64
    assert int(counts.sum()) == n
    assert int(counts.min()) >= 0


@settings(deadline=None)
@given(values=VALUES)
def test_rounding_moves_no_value_by_a_whole_where_the_sum_allows_it(values: list[float]) -> None:
    wanted = torch.tensor(values, dtype=torch.float64).clamp(min=0)
    n = round(float(wanted.sum()))
    counts = largest_remainder(wanted, n)
    assert float((counts - wanted).abs().max()) < 1 + 1e-9


@settings(deadline=None)
@given(counts=COUNTS)
def test_whole_counts_stay_and_expand_to_labels(counts: list[int]) -> None:
    whole = torch.tensor(counts)
    assert torch.equal(largest_remainder(whole.double(), sum(counts)), whole)
    labels = expand(whole)
    assert torch.equal(torch.bincount(labels, minlength=len(counts)), whole)


def test_too_many_and_too_few() -> None:
    assert largest_remainder(torch.tensor([3.0, 2.9, 0.2]), 4).tolist() == [2, 2, 0]
    assert largest_remainder(torch.tensor([0.0, 0.0]), 5).tolist() == [3, 2]
    assert largest_remainder(torch.tensor([float("nan"), 1.0]), 1).tolist() == [0, 1]


def test_label_error_counts_wrong_labels() -> None:
    true = torch.tensor([3, 0, 2])
    assert label_error(true, true) == 0
    assert label_error(torch.tensor([2, 1, 2]), true) == 1
    assert label_error(torch.tensor([0, 5, 0]), true) == 5


@settings(deadline=None)
@given(data=st.data(), k=st.integers(1, 6), n=st.integers(1, 20))
def test_relabelling_reaches_the_counts_with_the_fewest_changes(data: st.DataObject, k: int, n: int) -> None:
    draw = st.lists(st.integers(0, k - 1), min_size=n, max_size=n)
    labels, wanted = torch.tensor(data.draw(draw)), torch.bincount(torch.tensor(data.draw(draw)), minlength=k)
    new = relabel(labels, wanted)
    assert torch.equal(torch.bincount(new, minlength=k), wanted)
    assert int((new != labels).sum()) == label_error(torch.bincount(labels, minlength=k), wanted)
