from __future__ import annotations

import pytest
from scipy.stats import binomtest

from leakscope.errors import InputError
from leakscope.metrics.intervals import wilson_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (1, 50), (9, 10), (50, 50), (123, 1000)])
def test_wilson_agrees_with_scipy(hits: int, n: int) -> None:
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson_interval(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("n", [1, 5, 14, 28, 31, 200])
def test_none_and_all_reach_the_ends_exactly(n: int) -> None:
    assert wilson_interval(0, n)[0] == 0.0
    assert wilson_interval(n, n)[1] == 1.0
    assert wilson_interval(0, n)[1] == pytest.approx(1 - wilson_interval(n, n)[0])


@pytest.mark.parametrize(("hits", "n"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_refused(hits: int, n: int) -> None:
    with pytest.raises(InputError, match="out of"):
        wilson_interval(hits, n)
