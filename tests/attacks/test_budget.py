"""A time budget instead of a number of iterations."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from leakscope.attacks.budget import Budget, parse_duration
from leakscope.attacks.generators.gi_nas import Search
from leakscope.attacks.known import Known
from leakscope.attacks.recipes import span_sme
from leakscope.attacks.warm_start import WarmStart
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


@pytest.mark.parametrize(
    ("preparation", "own"),
    [(None, 1000), (WarmStart(attack=span_sme(), ratio=1.0), 500), (Search(count=20), 980)],
)
def test_what_comes_before_the_first_iteration_is_part_of_the_budget(preparation, own, monkeypatch, observation):
    clock = iter([0.0, 5.0])  # five steps of a second each
    monkeypatch.setattr("leakscope.attacks.budget.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr("leakscope.attacks.descent.Descent.step", lambda _: None)
    attack = replace(span_sme(), preparation=preparation, iterations=2000)
    known = Known.of(observation, torch.device("cpu"))
    planned, _, _ = Budget(seconds=1000)(attack, known)
    assert planned.iterations == pytest.approx(own, abs=1)
