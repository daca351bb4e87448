"""Restarts that are evaluated together."""

from dataclasses import replace

import pytest
import torch

from leakscope.attacks.engine import Attack
from leakscope.attacks.known import Known
from leakscope.attacks.lockstep import groups, in_lockstep
from leakscope.attacks.recipes import ig, nl_sme, span_sme
from scenes import Interrupting, tiny_client, tiny_observation


def short(attack: Attack, **changes: object) -> Attack:
    return replace(attack, iterations=12, history=4, restarts=3, **changes)


@pytest.mark.parametrize("model", ["mlp", "cnn-mnist"])
@pytest.mark.parametrize("recipe", [ig, nl_sme, span_sme])
def test_restarts_in_lockstep_are_those_one_after_the_other(recipe, model):
    observation = tiny_observation(tiny_client(model=model, n=6, epochs=4, lr=0.05))
    one, together = (short(recipe(), lockstep=choice)(observation) for choice in ("off", "on"))
    assert together.objective == pytest.approx(one.objective, rel=1e-3)
    assert float((together.images - one.images).abs().mean()) < 1e-2
    assert [row["iteration"] for row in together.history] == [row["iteration"] for row in one.history]


def test_interrupted_lockstep_goes_on_as_if_nothing_had_happened():
    observation = tiny_observation(tiny_client())
    attack = short(nl_sme(), lockstep="on")
    whole, watch = attack(observation), Interrupting(5)
    attack(observation, watch=watch)
    assert len(watch.state["runs"]) == 3
    assert torch.equal(attack(observation, resume=watch.state).images, whole.images)


def test_lockstep_is_for_gpus_unless_asked_and_for_what_vmap_can_do():
    known = Known.of(tiny_observation(tiny_client()), torch.device("cpu"))
    assert not in_lockstep(short(nl_sme()), known, ())
    asked = short(nl_sme(), lockstep="on")
    assert in_lockstep(asked, known, ())
    assert not in_lockstep(replace(asked, chunk=2), known, ())
    assert not in_lockstep(replace(asked, restarts=1), known, ())
    assert [list(group) for group in groups(asked, known, (), first=1)] == [[1, 2]]
    assert [list(group) for group in groups(short(nl_sme()), known, (), first=1)] == [[1], [2]]
