"""The net up to its first fully connected layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from leakscope.attacks.inversion.front import Front, statistics, unsent
from leakscope.attacks.known import Known
from leakscope.attacks.span import features
from leakscope.client.training import Client
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


def test_in_eval_mode_it_is_the_net_at_the_middle(client):
    known = known_of(client)
    front = Front.of(known)
    assert front.cells == (64, 3, 3)
    x = client.batch.normalisation.apply(client.batch.images)
    assert torch.equal(front(client.batch.images), features(known, known.w0 - known.delta / 2, x))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_one_full_batch_in_train_mode_gives_its_statistics_away(client, momentum):
    known = known_of(normed(client, momentum))
    still = replace(Front.of(known), w=known.w0)
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
