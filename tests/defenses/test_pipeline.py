"""Defenses by name and in a row."""

from __future__ import annotations

import math

import pytest
import torch

from leakscope.client.training import train
from leakscope.defenses import DEFENSES, Clip, Gaussian, Pipeline, parse_defense
from leakscope.errors import InputError
from small import small_client

TEXTS = [
    "none",
    "sparsify:rate=0.9",
    "sparsify:rate=0.9,scope=global",
    "clip:bound=4",
    "clip:bound=1e+06",
    "gaussian:std=0.1",
    "gaussian:std=0.1234567891",
    "soteria:rate=0.8",
    "quantize:bits=8",
    "dual-prune",
    "censor",
    "outpost:iteration=3",
    "dpsgd:epsilon=10",
    "dpsgd:sigma=0,clip=inf,poisson=on",
    "drop:rate=0.9",
    "drop:rate=0.5,scope=global,residual=off",
    "clip:bound=1+gaussian:std=0.01",
    "dpsgd:epsilon=100+sparsify:rate=0.5+quantize:bits=4",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_canonical_string_reads_back_as_the_same_pipeline(text: str) -> None:
    assert str(parse_defense(text)) == text
    assert parse_defense(str(parse_defense(text))) == parse_defense(text)


def test_every_defense_is_in_the_table_of_texts() -> None:
    assert set(DEFENSES) <= {part.split(":")[0] for text in TEXTS for part in text.split("+")}


def test_spaces_and_defaults_do_not_show() -> None:
    assert str(parse_defense(" clip : bound = 1.0,on=update + gaussian:std=1e-2 ")) == "clip:bound=1+gaussian:std=0.01"


def test_no_defense_is_plain_training() -> None:
    client = small_client()
    w0 = client.victim.weights()
    update = parse_defense("none").train(client, w0, seed=0, record=True)
    plain = train(client, w0)
    assert all(torch.equal(update.delta[name], value) for name, value in plain.delta.items())
    assert len(update.trajectory) == client.training.steps(6) + 1
    assert update.notes["defense"] == "none"


def test_a_composition_converts_units() -> None:
    """clip bounds the update, gaussian adds to the gradient: in the update, its noise is std * lr."""
    client = small_client(lr=0.05, epochs=4)
    w0 = client.victim.weights()
    clipped = parse_defense("clip:bound=0.01").train(client, w0, seed=3)
    both = parse_defense("clip:bound=0.01+gaussian:std=0.2").train(client, w0, seed=3)
    assert clipped.norm() == pytest.approx(0.01, rel=1e-5)
    noise = torch.cat([(both.delta[name] - value).flatten() for name, value in clipped.delta.items()])
    assert float(noise.std()) == pytest.approx(0.2 * 0.05, rel=5 / math.sqrt(2 * noise.numel()))
    on_update = parse_defense("clip:bound=0.01+gaussian:std=0.01,on=update").train(client, w0, seed=3)
    assert all(torch.allclose(on_update.delta[name], value, atol=1e-7) for name, value in both.delta.items())


def test_parts_act_in_order() -> None:
    client = small_client()
    w0 = client.victim.weights()
    after = parse_defense("gaussian:std=5+clip:bound=0.01").train(client, w0, seed=0)
    before = parse_defense("clip:bound=0.01+gaussian:std=5").train(client, w0, seed=0)
    assert after.norm() == pytest.approx(0.01, rel=1e-5)
    assert before.norm() > 1


def test_training_defense_and_transform_work_together() -> None:
    pytest.importorskip("opacus", reason="Opacus is not installed (extra `dp`)")
    client = small_client()
    update = parse_defense("dpsgd:epsilon=10+sparsify:rate=0.5").train(client, client.victim.weights(), seed=0)
    assert "dpsgd" in update.notes
    for value in update.delta.values():
        assert int((value == 0).sum()) == value.numel() // 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sparsfy:rate=0.9", ["did you mean 'sparsify'"]),
        ("sparsify:rat=0.9", ["did you mean 'rate'", "sparsify needs rate"]),
        ("sparsify", ["sparsify needs rate"]),
        ("sparsify:rate=2+gaussian:std=-1+soteri", ["rate=2", "std=-1", "did you mean 'soteria'"]),
        ("gaussian:std=much", ["std=much is not a number"]),
        ("gaussian:std=0.1,on=weights", ["none of update, gradient"]),
        ("quantize:bits=2.5", ["not a whole number"]),
        ("none+clip:bound=1", ["leave 'none' out"]),
        ("clip:bound=1+clip:bound=2", ["'clip' is applied 2 times"]),
        ("clip:bound=1+dpsgd:epsilon=10", ["put dpsgd first"]),
        ("dpsgd:epsilon=10+drop:rate=0.9", ["'dpsgd' and 'drop' both compute", "choose one"]),
        ("", ["names nothing"]),
        ("clip:bound", ["not key=value"]),
    ],
)
def test_every_problem_of_a_text_is_told(text: str, expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_defense(text)
    for part in expected:
        assert part in str(caught.value)


def test_what_does_not_fit_the_client_is_refused_before_training() -> None:
    pytest.importorskip("opacus", reason="Opacus is not installed (extra `dp`)")
    client = small_client(model="resnet8")
    defense = parse_defense("dpsgd:epsilon=10+soteria:rate=0.5,layer=fc")
    with pytest.raises(InputError) as caught:
        defense.train(client, client.victim.weights(), seed=0)
    assert "BatchNorm" in str(caught.value)
    assert "unknown linear layer" in str(caught.value)


def test_a_pipeline_reads_well() -> None:
    assert repr(Pipeline((Clip(bound=4), Gaussian(std=0.1)))) == (
        "Pipeline(parts=(Clip(bound=4, on='update'), Gaussian(std=0.1, on='gradient')))"
    )
