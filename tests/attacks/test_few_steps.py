"""`--schedule fast`: what it changes beside the cosine."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks.composition import Composition
from leakscope.attacks.few_steps import InFewSteps, usual_iterations
from leakscope.attacks.fitting import Fit, estimate_mb, low_memory
from leakscope.attacks.known import Known
from leakscope.attacks.recipes import ig, nl_sme, sme, span_sme
from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from scenes import tiny_client, tiny_observation


@pytest.fixture
def known() -> Known:
    return Known.of(tiny_observation(), torch.device("cpu"))


def fitted(attack: Composition, known: Known, *, memory: str = "normal") -> Composition:
    """As a cell composes it."""
    attack, *_ = InFewSteps()(attack, known)
    return Fit(memory=memory)(attack, known)[0]


@pytest.mark.parametrize("memory", ["normal", "low"])
def test_fast_looks_ahead_with_one_d_per_tensor_and_the_papers_schedule_does_not(known, memory):
    fast = fitted(nl_sme(schedule="fast"), known, memory=memory)
    assert fast == replace(low_memory(nl_sme(), known), schedule="fast", optimiser="nadam-lean")
    assert estimate_mb(fast, known) == estimate_mb(low_memory(nl_sme(), known), known)
    assert fitted(nl_sme(), known) == nl_sme()


def test_fast_leaves_sme_and_nets_without_convolutions_their_own_moments(known):
    assert fitted(sme(schedule="fast"), known) == sme(schedule="fast")
    dense = Known.of(tiny_observation(tiny_client(model="mlp")), torch.device("cpu"))
    own, *_ = nl_sme(schedule="fast").adapt(dense)
    assert fitted(own, dense).optimiser == "adam"


def test_fast_in_little_memory_looks_ahead_no_more_than_fast_alone(known):
    assert fitted(sme(schedule="fast"), known, memory="low").optimiser == "adam-lean"
    assert fitted(nl_sme(schedule="fast"), known, memory="low").optimiser == "nadam-lean"


def test_fast_takes_half_of_the_iterations_of_the_papers_schedule_alone():
    assert [usual_iterations(attack(), "fast") for attack in (ig, sme, nl_sme, span_sme)] == [500, 500, 500, 300]
    assert [usual_iterations(attack(), None) for attack in (ig, sme, nl_sme)] == [1000, 1000, 1000]


def test_a_request_for_fast_counts_unless_somebody_did():
    asked = {"attacks": ("nl-sme",), "schedule": "fast"}
    (cell,) = grid(Request(**asked), "photos", "")
    assert (cell.attack.schedule, cell.attack.iterations) == ("fast", 500)
    (cell,) = grid(Request(**asked, iterations=70), "photos", "")
    assert cell.attack.iterations == 70
