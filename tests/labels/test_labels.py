"""Label counts from updates: exact where the softmax mass is known, close where it is estimated."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.client.training import Client, train
from leakscope.data import draw_client, load
from leakscope.defenses import parse_defense
from leakscope.errors import InputError
from leakscope.labels import Evidence, label_error, largest_remainder, recover_counts, refine_counts
from leakscope.labels.evidence import repetitions
from leakscope.labels.geng import geng
from leakscope.labels.identity import bias_identity, mean_feature, path_softmax
from leakscope.labels.refine import simulated_mass
from leakscope.labels.restore import restored
from leakscope.types import LocalTraining, Update
from leakscope.victims import Victim, build_victim
from leakscope.victims.head import embeddings, find_head
from small import CLASSES, SIDE, small_client


def labelled(labels: list[int], **training: object) -> Client:
    """A client with the given labels."""
    client = small_client(n=len(labels), **{"epochs": 4, **training})  # type: ignore[arg-type]
    return replace(client, batch=replace(client.batch, labels=torch.tensor(labels)))


def without_bias(client: Client) -> Client:
    """The same client with a last layer that has no bias."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 40), nn.ReLU(), nn.Linear(40, CLASSES, bias=False))
    return replace(client, victim=Victim("no-bias", module.eval(), (1, SIDE, SIDE), CLASSES))


def true_counts(client: Client) -> torch.Tensor:
    return torch.bincount(client.batch.labels, minlength=CLASSES)


def trained(client: Client) -> Update:
    return train(client, client.victim.weights())


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        ("cnn-mnist", [0, 1, 2, 3, 4, 0]),
        ("cnn-mnist", [3, 3, 3, 3, 3, 3]),
        ("cnn-mnist", [0, 0, 0, 1, 1, 4]),
        ("cnn-mnist", [2, 4, 4, 4, 2, 0]),
        ("vit", [3, 3, 3, 3, 3, 3]),
        ("vit", [0, 0, 0, 1, 1, 4]),
    ],
)
def test_counts_are_exact_at_a_small_rate(model: str, labels: list[int]) -> None:
    client = labelled(labels, model=model, lr=1e-3)
    update = trained(client)
    found = recover_counts(client.victim, update.w0, update.delta, client.training, 6)
    assert torch.equal(found, true_counts(client))


def test_the_identity_is_exact_with_the_true_mass() -> None:
    """n_c = S_c - (N / T) G_b[c] to float precision, for batches of one size."""
    client = labelled([0, 0, 0, 1, 1, 4], lr=0.3, epochs=6)
    update = trained(client)
    evidence = Evidence(client.victim, update.w0, update.delta, client.training, 6)
    mass, size = simulated_mass(evidence, client)
    assert float(size) == 1
    counts = mass - evidence.signal * evidence.n / evidence.steps
    assert torch.allclose(counts, true_counts(client).double(), atol=1e-4)


@pytest.mark.parametrize("batch_size", [3, 4, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_refining_on_the_true_images_in_another_order_is_exact(batch_size: int, bias: bool) -> None:
    client = labelled([0, 0, 0, 0, 1, 1, 4], lr=0.1, epochs=12, batch_size=batch_size)
    client = client if bias else without_bias(client)
    update, batch = trained(client), client.batch
    found = refine_counts(
        client.victim, update.w0, update.delta, client.training, batch.images, batch.labels, batch.normalisation, seed=9
    )
    assert torch.equal(found, true_counts(client))


def test_absent_classes_tell_how_far_training_has_moved_the_mass() -> None:
    """At a rate at which the mean feature's path alone finds images of classes that are not there."""
    client = labelled([0] * 8 + [1] * 4, lr=0.05, epochs=10, batch_size=4, seed=1)
    update = trained(client)
    evidence = Evidence(client.victim, update.w0, update.delta, client.training, 12)
    path = path_softmax(evidence, mean_feature(evidence))
    naive = largest_remainder(12 * path.mean(dim=0) - evidence.signal * evidence.n / evidence.steps, 12)
    assert label_error(naive, true_counts(client)) >= 2
    assert torch.equal(largest_remainder(bias_identity(evidence), 12), true_counts(client))


def test_refining_takes_soft_labels() -> None:
    client = labelled([0, 0, 1, 1, 4, 3], lr=0.01)
    update, batch = trained(client), client.batch
    soft = torch.full((6, CLASSES), 1 / CLASSES)
    found = refine_counts(
        client.victim, update.w0, update.delta, client.training, batch.images, soft, batch.normalisation
    )
    assert torch.equal(found, true_counts(client))


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"weight_decay": 0.5}, {"momentum": 0.5, "weight_decay": 0.1}])
def test_momentum_and_weight_decay_are_taken_out(options: dict[str, float]) -> None:
    client = labelled([0, 0, 0, 1, 1, 4], lr=1e-3, epochs=10, **options)
    update = trained(client)
    plain = replace(client, training=replace(client.training, momentum=0.0, weight_decay=0.0))
    expected = Evidence(client.victim, update.w0, trained(plain).delta, plain.training, 6).signal
    found = Evidence(client.victim, update.w0, update.delta, client.training, 6).signal
    assert torch.allclose(found, expected, rtol=0.05, atol=0.05)
    counts = recover_counts(client.victim, update.w0, update.delta, client.training, 6)
    assert torch.equal(counts, true_counts(client))


def test_repetitions_count_the_weight_of_a_constant_gradient() -> None:
    velocity, total = 0.0, 0.0
    for _ in range(7):
        velocity = 0.6 * velocity + 1
        total += velocity
    assert repetitions(0.6, 7) == pytest.approx(total / 7)
    assert repetitions(0.0, 7) == 1


def test_the_mean_feature_is_that_of_the_private_images() -> None:
    client = labelled([0, 1, 1, 2, 2, 4], lr=1e-4)
    update = trained(client)
    evidence = Evidence(client.victim, update.w0, update.delta, client.training, 6)
    x = client.batch.normalisation.apply(client.batch.images)
    true = embeddings(client.victim, find_head(client.victim), update.w0, {}, x).mean(dim=0)
    assert torch.cosine_similarity(mean_feature(evidence), true.double(), dim=0) > 0.95


def test_a_model_without_bias_is_counted_by_geng() -> None:
    client = without_bias(labelled([0, 0, 0, 1, 1, 4], lr=1e-3))
    update = trained(client)
    args = (client.victim, update.w0, update.delta, client.training, 6)
    assert torch.equal(recover_counts(*args), largest_remainder(geng(Evidence(*args)), 6))
    assert label_error(recover_counts(*args), true_counts(client)) <= 1


@pytest.mark.parametrize("rule", [bias_identity, geng])
def test_one_image_after_one_step_gives_its_label_away(rule: Callable[[Evidence], torch.Tensor]) -> None:
    for label in range(CLASSES):
        client = labelled([label], epochs=1, batch_size=1)
        update = trained(client)
        found = largest_remainder(rule(Evidence(client.victim, update.w0, update.delta, client.training, 1)), 1)
        assert found.tolist() == [int(c == label) for c in range(CLASSES)]


@pytest.mark.parametrize("rule", [bias_identity, geng])
def test_there_are_n_labels_whatever_the_update(rule: Callable[[Evidence], torch.Tensor]) -> None:
    client = small_client(n=12)
    w0 = client.victim.weights()
    for scale in (0.0, 1e-3, 10.0):
        noise = {name: scale * torch.randn(value.shape) for name, value in w0.items()}
        found = largest_remainder(rule(Evidence(client.victim, w0, noise, client.training, 12)), 12)
        assert int(found.sum()) == 12
        assert int(found.min()) >= 0


def test_a_pruned_rank_one_update_is_restored() -> None:
    g = torch.tensor([-3.0, 1.0, 0.5, 1.5], dtype=torch.float64)
    h = torch.linspace(0.5, 2, 12, dtype=torch.float64)
    full = g[:, None] * h
    weight, bias = full.clone(), g.clone()
    weight[full.abs() < 0.6] = 0
    bias[1:] = 0
    assert torch.equal(restored(full, g)[0], full)
    found = restored(weight, bias)
    assert torch.allclose(found[0], full, rtol=0.02)
    assert torch.allclose(found[1], g, rtol=0.02)
    silent = restored(torch.zeros_like(full), bias)
    assert torch.equal(silent[0], torch.zeros_like(full))
    assert torch.equal(silent[1], bias)


@pytest.mark.parametrize("defense", ["sparsify:rate=0.6", "quantize:bits=8", "soteria:rate=0.8", "gaussian:std=0.01"])
def test_defenses_that_keep_the_largest_entries_do_not_hide_the_counts(defense: str) -> None:
    client = labelled([0, 0, 0, 1, 1, 4], lr=1e-3)
    update = parse_defense(defense).train(client, client.victim.weights(), seed=0)
    found = recover_counts(client.victim, update.w0, update.delta, client.training, 6)
    assert torch.equal(found, true_counts(client))


def test_a_relu_on_the_logits_is_noticed() -> None:
    seen = {}
    for model in ("cnn-mnist", "mlp"):
        client = small_client(model=model)
        w0 = client.victim.weights()
        seen[model] = Evidence(client.victim, w0, w0, client.training, 6).direct
    assert seen == {"cnn-mnist": True, "mlp": False}


def test_adam_is_refused() -> None:
    client = small_client(optimizer="adam")
    update = trained(client)
    with pytest.raises(InputError, match="trains with adam"):
        recover_counts(client.victim, update.w0, update.delta, client.training, 6)


@pytest.mark.skipif("LEAKSCOPE_DATA" not in os.environ, reason="LEAKSCOPE_DATA names no folder with FEMNIST")
def test_real_writers_give_their_counts_away() -> None:
    """Near-uniform writers (40 or more characters) exactly; writers of digits alone to 15 %."""
    dataset = load("femnist", root=None)
    errors = {}
    for writer in ("62", "29", "7", "0", "8"):
        batch = draw_client(dataset, n=50, seed=0, writer=writer)
        victim = build_victim("cnn-mnist", shape=dataset.shape, classes=dataset.classes, seed=int(writer))
        client = Client(victim, batch, LocalTraining(epochs=20, batch_size=10, lr=0.004), int(writer))
        update = trained(client)
        found = recover_counts(victim, update.w0, update.delta, client.training, 50)
        errors[writer] = label_error(found, torch.bincount(batch.labels, minlength=dataset.classes))
    assert [errors[writer] for writer in ("62", "29", "7")] == [0, 0, 0]
    assert max(errors[writer] for writer in ("0", "8")) <= 0.15 * 50
