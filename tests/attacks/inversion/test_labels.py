"""Which feature vector has which label."""

import pytest
import torch

from leakscope.attacks.inversion.labels import likeness, outer_products, owners
from leakscope.attacks.known import Known
from leakscope.attacks.span import features
from scenes import tiny_client, tiny_observation


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weight_decay_is_taken_out_of_the_update(momentum):
    def energy_beyond_the_span(weight_decay: float) -> float:
        client = tiny_client(n=6, epochs=2, momentum=momentum, weight_decay=weight_decay)
        known = Known.of(tiny_observation(client), torch.device("cpu"))
        sizes = torch.linalg.svdvals(outer_products(known)[0].double())
        return float(sizes[6:].norm() / sizes.norm())

    assert energy_beyond_the_span(0.01) < 2 * energy_beyond_the_span(0.0)


@pytest.mark.parametrize("epochs", [1, 5])
def test_the_label_of_every_feature_vector_is_read_off(epochs):
    client = tiny_client(n=6, epochs=epochs)
    known = Known.of(tiny_observation(client), torch.device("cpu"))
    with torch.no_grad():
        a = features(known, known.w0 - known.delta / 2, client.batch.normalisation.apply(client.batch.images))
    alike = likeness(known, a)
    assert alike.argmax(1).tolist() == client.batch.labels.tolist()
    assert known.labels is not None
    assert known.labels[owners(alike, known.labels)].tolist() == client.batch.labels.tolist()
    assert not known.tape


def test_each_label_is_given_away_once():
    alike = torch.tensor([[0.9, 0.1], [0.8, 0.1], [0.1, 0.9]])
    assert sorted(owners(alike, torch.tensor([0, 1, 1]))) == [0, 1, 2]
    assert owners(alike[:1], torch.tensor([1, 0, 1])) == [1]
    assert owners(alike[:2], torch.tensor([[0.0, 1.0], [1.0, 0.0]])) == [1, 0]
