"""Every attack on every tiny model behind every defense: runs and gives images.

And again the same ones: behind every defense on one model, and on every model without one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial

import pytest
import torch

from leakscope.attacks import ATTACKS, build_attack
from leakscope.client.training import Client
from leakscope.defenses import DEFENSES, parse_defense
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge, Update
from leakscope.victims import MODELS
from leakscope.victims.cnn import resnet8
from leakscope.victims.mlp import mlp, mlp_tiny
from leakscope.victims.vit import VisionTransformer
from small import small_client

STRENGTHS = {
    "sparsify": "sparsify:rate=0.9",
    "clip": "clip:bound=1",
    "gaussian": "gaussian:std=0.1",
    "soteria": "soteria:rate=0.5",
    "quantize": "quantize:bits=8",
    "dpsgd": "dpsgd:epsilon=100",
    "drop": "drop:rate=0.9",
}
NARROW = {
    "mlp": partial(mlp, width=32),
    "mlp-tiny": partial(mlp_tiny, width=48),
    "vit": partial(VisionTransformer, width=32, depth=2),
    "resnet8": partial(resnet8, hidden=32),
}
"""The wide models with fewer neurons: a thousand are as many singular vectors in every search for noise."""
TRAINS_WITH_BATCH_NORM = {"resnet8"}
TINY: dict[str, dict[str, object]] = {
    "fedleak": {"width": 4},
    "gi-nas": {"width": 16, "candidates": 2},
    "unrolled": {"count": 2},
}
BASELINES = ("dlg", "invert", "ig-official", "fedleak", "fedleak-pixel", "gi-nas", "dggi", "unrolled")
CASES = [
    (attack, defense, model)
    for model in MODELS
    for defense in DEFENSES
    for attack in ATTACKS
    if attack not in BASELINES or defense == "none" or model == "cnn-mnist"
]
"""Baselines meet every model without a defense, and every defense on one model. Attacks on one update come together."""


@pytest.fixture(scope="module", autouse=True)
def _narrow() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, factory in NARROW.items():
            patch.setitem(MODELS, name, factory)
        yield


@lru_cache(maxsize=1)
def defended(defense: str, model: str) -> tuple[Client, Update]:
    client = small_client(model=model, n=3, epochs=1)
    return client, parse_defense(STRENGTHS.get(defense, defense)).train(client, client.victim.weights(), seed=0)


@pytest.mark.parametrize(("attack", "defense", "model"), CASES)
def test_every_attack_runs_on_every_model_behind_every_defense(attack, defense, model, request):
    if defense == "dpsgd":
        pytest.importorskip("opacus", reason="DP-SGD needs opacus (extra `dp`)")
        if model in TRAINS_WITH_BATCH_NORM:
            pytest.skip("DP-SGD refuses batch norm, which has a test of its own")
    client, update = defended(defense, model)
    auxiliary = ATTACKS[attack].auxiliary
    prior = {"prior": str(request.getfixturevalue("prior"))} if auxiliary else {}
    seen = observe(
        update,
        client.victim,
        knowledge=Knowledge(auxiliary=auxiliary),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )
    iterations = 1 if attack in BASELINES else 2
    settings = {**TINY.get(attack, {}), **prior}
    composed = replace(build_attack(attack, settings, matching="auto"), iterations=iterations, history=2)
    first = composed(seen)
    assert first.images.shape == client.batch.images.shape
    assert bool(first.images.isfinite().all())
    assert first.notes["matching"]["chosen"] in ("global", "mask", "layerwise")
    if model == "cnn-mnist" or (defense == "none" and attack not in BASELINES):
        assert torch.equal(first.images, composed(seen).images)
