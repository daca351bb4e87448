"""What a defense costs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakscope.cells.spec import ClientSpec
from leakscope.cells.utility import TEST_IMAGES, accuracy_after, federate, set_apart
from leakscope.client.training import Client, train
from leakscope.data import Dataset
from leakscope.defenses import parse_defense
from leakscope.types import LocalTraining, Normalisation
from small import small_client

CLIENT = ClientSpec(model="cnn-mnist", n=40, epochs=3, batch_size=10, lr=0.05, rounds=2, federation=2)


def accuracy(defense: str) -> float:
    return accuracy_after(CLIENT, None, defense)


@pytest.fixture(scope="module")
def undefended() -> float:
    return accuracy("none")


def test_training_beats_guessing_and_a_defense_that_does_nothing_costs_nothing(undefended):
    assert undefended > 1.5 / 9
    assert accuracy("sparsify:rate=0.0") == undefended


def test_drowning_the_update_in_noise_costs_accuracy(undefended):
    assert accuracy("gaussian:std=100") < undefended - 0.05


NORMED = """
from torch import nn

def model(shape, classes):
    dark = nn.Conv2d(3, 16, 4, stride=4)
    nn.init.constant_(dark.bias, -100.0)
    return nn.Sequential(dark, nn.BatchNorm2d(16, momentum=0.5), nn.ReLU(), nn.Flatten(), nn.Linear(1024, classes))
"""


def test_a_model_trained_with_batch_statistics_is_tested_with_what_they_became(tmp_path):
    (tmp_path / "normed.py").write_text(NORMED)
    client = replace(CLIENT, mode="train", model=f"{tmp_path / 'normed.py'}:model")
    found = accuracy_after(client, None, "none")
    assert found > 3 / 9


def test_the_next_round_starts_from_the_mean_of_the_clients_statistics():
    training = LocalTraining(epochs=2, batch_size=3, lr=0.01, mode="train")
    clients = [small_client(model="resnet8", seed=seed) for seed in (0, 1)]
    victim, w0, fresh = clients[0].victim, clients[0].victim.weights(), clients[0].victim.buffers()
    private = [client.batch for client in clients]
    once, _ = federate(victim, w0, private, training, parse_defense("clip:bound=100"), rounds=1)
    alone = [train(Client(victim, batch, training, seed), w0) for seed, batch in enumerate(private)]
    twice, _ = federate(victim, w0, private, training, parse_defense("clip:bound=100"), rounds=2)
    for name, value in once.buffers().items():
        if name.endswith("num_batches_tracked"):
            assert (int(value), int(twice.buffers()[name])) == (4, 8)
        else:
            first, second = (update.buffers_after[name] for update in alone)
            assert not torch.equal(first, second)
            torch.testing.assert_close(value, (first + second) / 2)
    for name, value in victim.buffers().items():
        assert torch.equal(value, fresh[name])


def noise(n: int = 100, *, copies: int = 1, tests: int = 0) -> Dataset:
    """Images that tell nothing about their labels: whoever is right about them has seen them."""
    draw = np.random.default_rng(0)
    images, labels = draw.integers(0, 256, (n, 8, 8, 1), dtype=np.uint8), draw.integers(0, 5, n)
    return Dataset(
        name="noise",
        images=np.tile(images, (copies, 1, 1, 1)),
        labels=np.tile(labels, copies),
        classes=5,
        normalisation=Normalisation((0.5,), (0.3,)),
        source="",
        fingerprint="",
        splits=(np.arange(n) < tests).astype(np.int64) if tests else None,
    )


@pytest.mark.parametrize("dataset", [noise(), noise(copies=2), noise(tests=30)], ids=["plain", "copies", "split"])
def test_nothing_that_is_tested_was_trained_on(dataset, monkeypatch):
    monkeypatch.setattr("leakscope.cells.utility.data.load", lambda *_, **__: dataset)
    w0 = "pretrain:epochs=30,lr=0.05,batch_size=10"
    client = ClientSpec(dataset="noise", model="mlp", n=10, epochs=1, lr=1e-6, w0=w0, rounds=1, federation=2)
    found = accuracy_after.__wrapped__(client, None, "none")
    assert found < 0.5


def test_the_test_images_are_the_data_sets_own_where_it_has_some():
    dataset = noise(tests=30)
    rest, images, labels = set_apart(dataset, seed=0)
    own = {image.tobytes(): label for image, label in zip(dataset.images[:30], dataset.labels[:30], strict=True)}
    assert len(images) == len(own) == 30
    for image, label in zip(images, labels, strict=True):
        assert own[image.permute(1, 2, 0).numpy().tobytes()] == label
    assert np.array_equal(rest.images, dataset.images[30:])
    assert not rest.splits.any()


def test_else_they_are_a_fifth_drawn_by_the_seed_and_never_more_than_enough():
    rest, images, labels = set_apart(noise(), seed=0)
    assert (len(rest), len(images), len(labels)) == (80, 20, 20)
    again, other = set_apart(noise(), seed=0)[1], set_apart(noise(), seed=1)[1]
    assert torch.equal(images, again)
    assert not torch.equal(images, other)
    assert len(set_apart(noise(6 * TEST_IMAGES), seed=0)[1]) == TEST_IMAGES
