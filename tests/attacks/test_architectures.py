"""What an attack does differently with transformers and fully connected nets."""

import pytest
import torch

from leakscope.attacks.known import Known
from leakscope.attacks.recipes import ig, nl_sme, sme
from leakscope.attacks.surrogate import Linear
from scenes import tiny_client, tiny_observation


def adapted(recipe, model):
    known = Known.of(tiny_observation(tiny_client(model=model)), torch.device("cpu"))
    attack, _, notes = recipe().adapt(known)
    return attack, notes


@pytest.mark.parametrize(
    ("model", "optimiser"), [("cnn-mnist", "adam-lean"), ("resnet8", "adam-lean"), ("mlp", "adam"), ("vit", "adam")]
)
def test_entries_of_p1_share_a_second_moment_in_convolutional_nets_alone(model, optimiser):
    attack, notes = adapted(nl_sme, model)
    assert attack.optimiser == optimiser
    assert ("moments" in notes) == (optimiser == "adam")


@pytest.mark.parametrize(("model", "lambda_p"), [("cnn-mnist", 0.01), ("vit", 0.01), ("mlp", 0.03)])
def test_p1_is_held_closer_to_the_line_in_fully_connected_nets(model, lambda_p):
    attack, notes = adapted(nl_sme, model)
    assert attack.surrogate.lambda_p == pytest.approx(lambda_p)
    assert ("leash" in notes) == (model == "mlp")


def test_a_path_held_on_the_line_stays_there():
    attack, _ = adapted(lambda: nl_sme(trajectory=False), "mlp")
    assert type(attack.surrogate) is Linear


@pytest.mark.parametrize("recipe", [ig, sme, nl_sme])
@pytest.mark.parametrize(("model", "part"), [("cnn-mnist", 1), ("mlp", 0.2), ("vit", 0.2)])
def test_nets_without_convolutions_are_smoothed_less(recipe, model, part):
    attack, notes = adapted(recipe, model)
    before, after = recipe().priors[0], attack.priors[0]
    assert after.weight == pytest.approx(part * before.weight)
    assert ("smoothing" in notes) == (part < 1)


@pytest.mark.parametrize("recipe", [ig, sme, nl_sme])
def test_transformers_get_small_steps_without_decay(recipe):
    attack, notes = adapted(recipe, "vit")
    assert (attack.images.lr, attack.schedule) == (0.1, "constant")
    assert "layer norms" in notes["steps"]
    assert adapted(recipe, "mlp")[0].schedule == "paper"
