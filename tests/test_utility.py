"""What a defense costs."""

import pytest

from leakscope.types import LocalTraining
from leakscope.utility import accuracy_after

TRAINING = LocalTraining(epochs=3, batch_size=10, lr=0.05)


def accuracy(defense: str, **changes: object) -> float:
    options = {"n": 40, "seed": 0, "rounds": 2, "clients": 2, **changes}
    return accuracy_after("photos", None, "cnn-mnist", defense, "fresh", TRAINING, **options)


@pytest.fixture(scope="module")
def undefended() -> float:
    return accuracy("none")


def test_training_beats_guessing_and_a_defense_that_does_nothing_costs_nothing(undefended):
    assert undefended > 1.5 / 9
    assert accuracy("sparsify:rate=0.0") == undefended


def test_drowning_the_update_in_noise_costs_accuracy(undefended):
    assert accuracy("gaussian:std=100") < undefended - 0.05
