"""Soteria's score against a brute-force Jacobian, and its mask on every kind of victim."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from leakscope.client.training import Client, train
from leakscope.defenses import Soteria
from leakscope.defenses.soteria import sensitivity
from leakscope.errors import InputError
from leakscope.types import LocalTraining
from leakscope.victims import Victim
from leakscope.victims.head import embeddings, find_head
from small import small_client


def signed_client() -> Client:
    """Batch norm and features of both signs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = nn.Sequential(
            nn.Conv2d(1, 3, 5),
            nn.BatchNorm2d(3),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(192, 20),
            nn.Tanh(),
            nn.Linear(20, 5),
        )
    plain = small_client()
    return Client(Victim("signed", module.eval(), (1, 12, 12), 5), plain.batch, plain.training)


CLIENTS = [small_client(n=3), signed_client()]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.victim.name)
def test_the_score_is_that_of_the_full_jacobian(client: Client) -> None:
    victim, x = client.victim, client.batch.normalisation.apply(client.batch.images)
    head, weights, buffers = find_head(victim), victim.weights(), victim.buffers()
    score = sensitivity(victim, head, weights, buffers, x, c=0.1)

    def features(image: Tensor) -> Tensor:
        return embeddings(victim, head, weights, buffers, image[None])[0]

    expected = torch.zeros_like(score)
    for image in x:
        jacobian = torch.autograd.functional.jacobian(features, image).flatten(1)
        expected += jacobian.norm(dim=1) / (features(image).abs() + 0.1)
    assert torch.allclose(score, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.victim.name)
def test_only_the_lowest_columns_of_the_last_layer_are_zeroed(client: Client) -> None:
    update = train(client, client.victim.weights())
    sent = Soteria(rate=0.8)(update, client=client, seed=0)
    head, x = find_head(client.victim), client.batch.normalisation.apply(client.batch.images)
    score = sensitivity(client.victim, head, update.w0, update.buffers, x, c=0.1)
    cut = score.argsort(stable=True)[: int(0.8 * len(score))]
    expected = update.delta[head.weight].clone()
    expected[:, cut] = 0
    assert torch.equal(sent.delta[head.weight], expected)
    others = [name for name in update.delta if name != head.weight]
    assert all(torch.equal(sent.delta[name], update.delta[name]) for name in others)
    assert sent.notes["soteria"] == {"layer": head.name, "features": len(score), "pruned": len(cut)}


def test_another_layer_can_be_named() -> None:
    client = small_client()
    update = train(client, client.victim.weights())
    sent = Soteria(rate=0.5, layer="7")(update, client=client, seed=0)
    columns = update.delta["7.weight"].shape[1]
    assert int((sent.delta["7.weight"] == 0).all(dim=0).sum()) >= columns // 2
    assert torch.equal(sent.delta["9.weight"], update.delta["9.weight"])


def test_an_unknown_layer_is_named_with_the_nearest_known_one() -> None:
    client = small_client(model="vit")
    with pytest.raises(InputError, match=r"did you mean 'head.2'"):
        Soteria(rate=0.5, layer="head.3").check(client.victim, client.training)


def test_a_layer_that_sees_tokens_is_refused() -> None:
    client = small_client(model="vit")
    with pytest.raises(InputError, match="one feature vector per image"):
        Soteria(rate=0.5, layer="blocks.0.attention.qkv").check(client.victim, client.training)


def test_a_model_without_a_final_linear_layer_is_refused() -> None:
    module = nn.Sequential(nn.Conv2d(1, 5, 12), nn.Flatten())
    victim = Victim("conv", module, (1, 12, 12), 5)
    with pytest.raises(InputError, match="no linear layer"):
        Soteria(rate=0.5).check(victim, LocalTraining())
