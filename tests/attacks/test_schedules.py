"""Learning-rate factors."""

from itertools import pairwise

import pytest

from leakscope.attacks.few_steps import usual_iterations
from leakscope.attacks.recipes import ig, nl_sme, sme, span_sme
from leakscope.attacks.schedules import SCHEDULES
from leakscope.cells.planning import grid
from leakscope.cells.request import Request


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_starts_at_one_and_never_rises(name):
    values = [SCHEDULES[name](k / 100) for k in range(100)]
    assert values[0] == 1
    assert all(before >= after > 0 for before, after in pairwise(values))


def test_the_paper_divides_by_ten_three_times():
    values = [SCHEDULES["paper"](k / 8) for k in range(8)]
    assert values == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.001])


def test_fast_takes_half_of_the_iterations_of_the_papers_schedule_alone():
    assert [usual_iterations(attack(), "fast") for attack in (ig, sme, nl_sme, span_sme)] == [500, 500, 500, 300]
    assert [usual_iterations(attack(), None) for attack in (ig, sme, nl_sme)] == [1000, 1000, 1000]


def test_a_request_for_fast_counts_unless_somebody_did():
    asked = {"attacks": ("nl-sme",), "schedule": "fast"}
    (cell,) = grid(Request(**asked), "photos", "")
    assert (cell.attack.schedule, cell.attack.iterations) == ("fast", 500)
    (cell,) = grid(Request(**asked, iterations=70), "photos", "")
    assert cell.attack.iterations == 70
