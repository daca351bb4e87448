"""A time budget instead of a number of iterations."""

from dataclasses import replace

import pytest

from leakscope.attacks.budget import Budget, parse_duration
from leakscope.attacks.recipes import span_sme
from leakscope.errors import InputError


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1.5h", 5400), (" 3 m", 180)])
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1m", "2x", "m", "1m30s"])
def test_what_is_no_duration(text):
    with pytest.raises(InputError, match="not a duration"):
        parse_duration(text)


def test_the_plan_fits_the_budget_and_is_recorded(observation):
    base = span_sme()
    rich = replace(base, adaptations=(*base.adaptations, Budget(seconds=3600)), iterations=30)(observation)
    assert rich.iterations == rich.notes["plan"]["iterations"] == 30
    poor = replace(base, adaptations=(*base.adaptations, Budget(seconds=1e-6)))(observation)
    assert poor.iterations == poor.notes["plan"]["iterations"] == 20
    assert poor.notes["plan"]["repeatable"] is False
