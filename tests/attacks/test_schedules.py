"""Learning-rate factors."""

from itertools import pairwise

import pytest

from leakscope.attacks.schedules import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_starts_at_one_and_never_rises(name):
    values = [SCHEDULES[name](k / 100) for k in range(100)]
    assert values[0] == 1
    assert all(before >= after > 0 for before, after in pairwise(values))


def test_the_paper_divides_by_ten_three_times():
    values = [SCHEDULES["paper"](k / 8) for k in range(8)]
    assert values == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.001])
