from __future__ import annotations

import pytest
from scipy.stats import binomtest

from leakscope.errors import InputError
from leakscope.metrics.intervals import bootstrap_interval, wilson_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (1, 50), (9, 10), (50, 50), (123, 1000)])
def test_wilson_agrees_with_scipy(hits: int, n: int) -> None:
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson_interval(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("hits", "n"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_refused(hits: int, n: int) -> None:
    with pytest.raises(InputError, match="out of"):
        wilson_interval(hits, n)


def test_bootstrap_is_seeded_and_covers_the_mean() -> None:
    values = [20.1, 22.4, 21.7, 23.0, 20.9, 22.2]
    low, high = bootstrap_interval(values, seed=1) or (0, 0)
    assert min(values) <= low < sum(values) / len(values) < high <= max(values)
    assert bootstrap_interval(values, seed=1) == (low, high)
    assert bootstrap_interval(values, seed=1, level=0.5) != (low, high)


def test_bootstrap_of_many_values_is_the_normal_interval() -> None:
    values = [(i * 37 % 101) / 100 for i in range(404)]
    mean = sum(values) / len(values)
    error = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5 / len(values) ** 0.5
    wanted = (mean - 1.96 * error, mean + 1.96 * error)
    assert bootstrap_interval(values) == pytest.approx(wanted, abs=0.2 * error)


def test_one_client_has_no_interval() -> None:
    assert bootstrap_interval([21.0]) is None
    assert bootstrap_interval([]) is None
