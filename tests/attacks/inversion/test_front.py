"""The net up to its first fully connected layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.attacks.inversion.front import Front, mean_place, statistics, unsent
from leakscope.attacks.known import Known
from leakscope.attacks.span import features
from leakscope.client.training import Client, train
from leakscope.types import LocalTraining
from leakscope.victims import Victim
from scenes import tiny_client, tiny_observation


def normed(client: Client, momentum: float | None = 0.1, **training: object) -> Client:
    """The same client with a batch-norm net, in train mode."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4, momentum=momentum),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 20),
        nn.ReLU(),
        nn.Linear(20, 5),
    )
    settings = LocalTraining(**{"epochs": 1, "batch_size": 4, "lr": 1e-3, "mode": "train", **training})  # type: ignore[arg-type]
    return Client(Victim("normed", net.eval(), (1, 12, 12), 5), client.batch, settings)


def known_of(client: Client, **changes: object) -> Known:
    return Known.of(replace(tiny_observation(client), **changes), torch.device("cpu"))


def test_in_eval_mode_it_is_the_net_at_the_middle_of_its_steps(client):
    known = known_of(client)  # four steps: they begin at 0, 1/4, 1/2 and 3/4 of the way
    front = Front.of(known)
    assert front.cells == (64, 3, 3)
    x = client.batch.normalisation.apply(client.batch.images)
    torch.testing.assert_close(front(client.batch.images), features(known, known.w0 - 3 / 8 * known.delta, x))


@pytest.mark.parametrize("epochs", [1, 2, 30])
def test_a_full_batch_client_is_simulated_exactly_where_there_are_few_steps(epochs):
    client = tiny_client(epochs=epochs, batch_size=4, lr=0.05)
    update = train(client, client.victim.weights(), record=True)
    known = known_of(client)
    way = known.delta / known.delta.square().sum()
    states = [known.join([state[name] for name in known.sizes]) for state in update.trajectory]
    true = sum(float((known.w0 - state) @ way) for state in states[:-1]) / (len(states) - 1)
    assert mean_place(known, client.batch.images, client.batch.labels) == pytest.approx(true, abs=0.02)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_one_full_batch_in_train_mode_gives_its_statistics_away(client, momentum):
    known = known_of(normed(client, momentum))
    still = Front.of(known)
    alone = torch.cat([still(image[None]) for image in client.batch.images])
    together = features(known, known.w0, client.batch.normalisation.apply(client.batch.images))
    torch.testing.assert_close(
        alone, together, atol=1e-3, rtol=1e-2
    )  # running variances are unbiased, batches' are not


def test_statistics_that_were_not_sent_are_missed(client):
    assert unsent(known_of(normed(client))) == []
    assert unsent(known_of(normed(client), buffers_after={})) == ["1"]
    assert unsent(known_of(normed(client, mode="eval"), buffers_after={})) == []
    assert statistics(known_of(tiny_client())) == {}
