"""An attacker who was told of a defense applies it to the dummy update."""

from __future__ import annotations

import pytest
import torch

from leakscope.attacks.known import Known
from leakscope.attacks.matching import Cosine, Imitating
from leakscope.attacks.recipes import nl_sme, sme
from leakscope.attacks.reliability import Reliability
from leakscope.client.training import train
from leakscope.defenses import Clip, Defense, DualPrune, Gaussian, Imitable, Quantize, Soteria, Sparsify, parse_defense
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge
from scenes import tiny_client

IMITABLE = [
    Sparsify(rate=0.7),
    Sparsify(rate=0.7, scope="global"),
    DualPrune(),
    Quantize(bits=3, rounding="nearest"),
    Soteria(rate=0.5),
]


def seen_through(defense: Defense, declared: str = "none") -> tuple[Known, torch.Tensor]:
    """What is known of a defended update, and the update before the defense."""
    client = tiny_client(n=4, epochs=2)
    update = train(client, client.victim.weights())
    defended = defense(update, client=client, seed=0)
    observation = observe(
        defended,
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
        declared_defense=declared,
    )
    return Known.of(observation, torch.device("cpu")), torch.cat([value.flatten() for value in update.delta.values()])


@pytest.mark.parametrize("defense", IMITABLE, ids=repr)
def test_the_true_update_through_the_defense_is_the_visible_one(defense):
    known, true = seen_through(defense)
    assert float(Cosine().distance(true, known)) > 1e-3
    assert float(Imitating(inner=Cosine(), defenses=(defense,)).distance(true, known)) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("defense", IMITABLE, ids=repr)
def test_the_gradient_passes_through(defense):
    known, true = seen_through(defense)
    g = (true + 0.1 * true.std() * torch.randn_like(true)).requires_grad_()
    Imitating(inner=Cosine(), defenses=(defense,)).distance(g, known).backward()
    assert g.grad is not None
    assert bool(g.grad.isfinite().all())
    assert float(g.grad.norm()) > 0


def test_the_declared_defense_is_imitated_in_order():
    text = "sparsify:rate=0.7+quantize:bits=4,rounding=nearest"
    known, _ = seen_through(Sparsify(rate=0.7), declared=text)
    attack, _, notes = Reliability(mode="adaptive")(nl_sme(), known)
    assert isinstance(attack.matching, Imitating)
    assert attack.matching.defenses == parse_defense(text).parts
    assert list(attack.matching.variables(known)) == ["d"]
    assert text in notes["matching"]["why"]


@pytest.mark.parametrize("declared", ["none", "clip:bound=4", "gaussian:std=0.1"])
def test_what_cannot_be_imitated_is_matched_by_what_is_seen(declared):
    known, _ = seen_through(Clip(bound=4), declared=declared)
    _, _, notes = Reliability(mode="adaptive")(sme(), known)
    assert notes["matching"]["chosen"] == "global"
    assert not isinstance(Clip(bound=4), Imitable)
    assert not isinstance(Gaussian(std=1), Imitable)
