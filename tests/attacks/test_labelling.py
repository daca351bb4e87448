"""Labels that were not granted."""

from dataclasses import replace

import torch

from leakscope.attacks.labelling import find_labels
from leakscope.attacks.recipes import sme
from scenes import tiny_client, tiny_observation


def test_granted_labels_are_left_alone(observation):
    same, labelling = find_labels(observation)
    assert same is observation
    assert labelling is None


def test_recovered_labels_are_those_of_the_client_and_the_attack_uses_them():
    client = tiny_client(n=6, epochs=3, batch_size=3)
    seen = tiny_observation(client, labels="recovered")
    assert seen.labels is None
    found, labelling = find_labels(seen)
    assert labelling is not None
    assert found.labels.tolist() == client.batch.labels.sort().values.tolist()
    result = replace(sme(), iterations=10, history=5)(seen)
    known = replace(sme(), iterations=10, history=5)(tiny_observation(client))
    assert torch.equal(result.images, known.images)
    assert result.labels.sort().values.tolist() == client.batch.labels.sort().values.tolist()
