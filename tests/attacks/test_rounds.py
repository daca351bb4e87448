"""Several rounds of one client, attacked together."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from leakscope.attacks import build_attack
from leakscope.attacks.descent import Descent
from leakscope.attacks.engine import Attack, Checkpoint
from leakscope.attacks.known import Known
from leakscope.attacks.rounds import Round
from leakscope.attacks.watch import Watch
from leakscope.client.training import train
from leakscope.metrics import assign
from leakscope.metrics.psnr import psnr
from leakscope.observation.firewall import Observation, observe
from leakscope.types import Knowledge, Reconstruction
from scenes import tiny_client, tiny_observation


def two_rounds(**options: object) -> tuple[Observation, torch.Tensor]:
    """What a server sees of a client in two rounds, the second from the weights that the first one left."""
    client = tiny_client(**options)
    w, seen = client.victim.weights(), []
    for _ in range(2):
        update = train(client, w)
        seen.append(
            observe(
                update,
                client.victim,
                knowledge=Knowledge(),
                normalisation=client.batch.normalisation,
                labels=client.batch.labels,
            )
        )
        w = {name: value - update.delta[name] for name, value in w.items()}
    return replace(seen[0], more=(seen[1],)), client.batch.images


def attack_of(name: str, iterations: int = 40) -> Attack:
    return replace(build_attack(name, {}), iterations=iterations, history=10)


@pytest.mark.parametrize("name", ["ig", "nl-sme", "span-sme"])
def test_the_same_round_twice_is_twice_that_round(name: str) -> None:
    """Twice the objective and its gradient for the images; for the variables of each round, the gradient as it was."""
    once, now = tiny_observation(), torch.tensor(0.5)
    attack, known, _ = attack_of(name).adapt(Known.of(once, torch.device("cpu")))
    again = Round.of(attack_of(name), once, torch.device("cpu"))
    one = Descent(attack, known, None, seed=1, state=None)
    two = Descent(attack, known, None, seed=1, state=None, rounds=(again,))
    gradients, value, terms = one.objective.evaluate(one.v, now)
    both, doubled, means = two.objective.evaluate(two.v, now)
    assert both.keys() == gradients.keys() | {f"{variable}@1" for variable in gradients if variable != "x"}
    assert torch.allclose(both["x"], 2 * gradients["x"], rtol=1e-4, atol=1e-8)
    for variable in gradients.keys() - {"x"}:
        assert torch.allclose(both[variable], gradients[variable], rtol=1e-4, atol=1e-8)
        assert torch.allclose(both[f"{variable}@1"], gradients[variable], rtol=1e-4, atol=1e-8)
    assert float(doubled) == pytest.approx(2 * float(value), rel=1e-5)
    assert float(means["l_sim"]) == pytest.approx(float(terms["l_sim"]), rel=1e-5)


def test_each_round_has_its_own_place_on_its_own_path() -> None:
    seen, _ = two_rounds(lr=0.1)
    kept: list[Checkpoint] = []

    class Keep(Watch):
        def keep(self, checkpoint) -> None:
            kept.append(checkpoint())

    attack_of("nl-sme", 20)(seen, watch=Keep())
    v = kept[-1]["runs"][0]["v"]
    assert v.keys() == {"x", "t", "p1", "d", "t@1", "p1@1", "d@1"}
    assert not torch.equal(v["t"], v["t@1"])


def test_an_interrupted_attack_on_two_rounds_ends_with_the_same_numbers() -> None:
    seen, _ = two_rounds()
    kept: list[Checkpoint] = []

    class KeepFifth(Watch):
        def keep(self, checkpoint) -> None:
            if not kept and checkpoint()["runs"][0]["iteration"] == 5:
                kept.append(copy.deepcopy(checkpoint()))

    whole = attack_of("sme", 12)(seen, watch=KeepFifth())
    again = attack_of("sme", 12)(seen, resume=kept[0])
    assert torch.equal(whole.images, again.images)


def test_two_rounds_together_do_not_hurt() -> None:
    """On a client whose images one round already gives away, the other round must not spoil them."""
    seen, images = two_rounds(n=2, epochs=1)

    def quality(found: Reconstruction) -> float:
        return float(psnr(images, found.images[list(assign(images, found.images))]).mean())

    attack = attack_of("sme", 60)
    alone = [quality(attack(replace(seen, more=()))), quality(attack(seen.more[0]))]
    assert quality(attack(seen)) > min(alone) - 0.5
