"""What an attack does differently with transformers and fully connected nets."""

import pytest
import torch

from leakscope.attacks.known import Known
from leakscope.attacks.recipes import ig, nl_sme, sme
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


@pytest.mark.parametrize("recipe", [ig, sme, nl_sme])
def test_transformers_get_small_steps_without_decay(recipe):
    attack, notes = adapted(recipe, "vit")
    assert (attack.images.lr, attack.schedule) == (0.1, "constant")
    assert "layer norms" in notes["steps"]
    assert adapted(recipe, "mlp")[0].schedule == "paper"
