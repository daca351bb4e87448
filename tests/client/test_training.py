"""Local training."""

import math

import pytest
import torch
from torch.nn import functional

from leakscope.client.training import Client, batch_gradient, batches, train
from leakscope.errors import InputError
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge, LocalTraining
from scenes import tiny_client


def test_one_full_batch_step_is_lr_times_the_gradient():
    client = tiny_client(n=4, epochs=1, batch_size=4, lr=0.1)
    w0 = client.victim.weights()
    update = train(client, w0)
    x = client.batch.normalisation.apply(client.batch.images)
    gradient = batch_gradient(client.victim, w0, {}, x, client.batch.labels)
    for name in w0:
        torch.testing.assert_close(update.delta[name], 0.1 * gradient[name], atol=1e-7, rtol=1e-4)


def test_training_equals_torchs_own_sgd():
    client = tiny_client(n=6, epochs=3, batch_size=4, lr=0.05)
    w0 = client.victim.weights()
    update = train(client, w0)
    module = client.victim.module
    module.load_state_dict(w0)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    x = client.batch.normalisation.apply(client.batch.images)
    for chosen in batches(6, client.training, seed=client.seed):
        optimiser.zero_grad()
        functional.cross_entropy(module(x[chosen]), client.batch.labels[chosen]).backward()
        optimiser.step()
    for name, value in module.named_parameters():
        torch.testing.assert_close(w0[name] - value.detach(), update.delta[name], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize(("optimizer", "options"), [("sgd", {"momentum": 0.9, "weight_decay": 0.01}), ("adam", {})])
def test_other_optimisers_equal_torchs(optimizer, options):
    client = tiny_client(n=4, epochs=3, batch_size=4, lr=0.01, optimizer=optimizer, **options)
    w0 = client.victim.weights()
    update = train(client, w0)
    module = client.victim.module
    module.load_state_dict(w0)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimiser = kinds[optimizer](module.parameters(), lr=0.01, **options)
    x = client.batch.normalisation.apply(client.batch.images)
    for chosen in batches(4, client.training, seed=client.seed):
        optimiser.zero_grad()
        functional.cross_entropy(module(x[chosen]), client.batch.labels[chosen]).backward()
        optimiser.step()
    for name, value in module.named_parameters():
        torch.testing.assert_close(w0[name] - value.detach(), update.delta[name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("n", "b", "e"), [(50, 10, 20), (7, 3, 2), (5, 5, 1)])
def test_number_of_steps_and_every_image_once_an_epoch(n, b, e):
    settings = LocalTraining(epochs=e, batch_size=b)
    drawn = list(batches(n, settings, seed=1))
    assert len(drawn) == settings.steps(n) == e * math.ceil(n / b)
    per_epoch = len(drawn) // e
    orders = [torch.cat(drawn[k * per_epoch : (k + 1) * per_epoch]) for k in range(e)]
    assert all(torch.equal(order.sort().values, torch.arange(n)) for order in orders)
    assert e == 1 or not torch.equal(orders[0], orders[1])


def test_the_recorded_trajectory_ends_at_the_sent_model():
    client = tiny_client(n=4, epochs=3, lr=0.2)
    w0 = client.victim.weights()
    update = train(client, w0, record=True)
    states, steps = update.trajectory, client.training.steps(4)
    assert len(states) == steps + 1
    for name in w0:
        torch.testing.assert_close(w0[name] - states[-1][name], update.delta[name])


def test_training_is_repeatable_and_changes_neither_w0_nor_the_model():
    client = tiny_client()
    w0 = client.victim.weights()
    before = {name: value.clone() for name, value in w0.items()}
    first, second = train(client, w0), train(client, w0)
    for name in w0:
        assert torch.equal(first.delta[name], second.delta[name])
        assert torch.equal(w0[name], before[name])
        assert torch.equal(client.victim.weights()[name], before[name])


def test_train_mode_uses_batch_statistics():
    evaluated = tiny_client(model="resnet8", mode="eval")
    trained = Client(evaluated.victim, evaluated.batch, LocalTraining(epochs=2, batch_size=2, lr=0.01, mode="train"))
    w0 = evaluated.victim.weights()
    assert train(evaluated, w0).norm() != pytest.approx(train(trained, w0).norm(), rel=1e-3)
    assert not evaluated.victim.module.training


def test_bad_settings_are_all_reported():
    with pytest.raises(InputError) as caught:
        LocalTraining(epochs=0, batch_size=0, lr=math.nan)
    assert len(caught.value.problems) == 3
    client = tiny_client(n=4)
    with pytest.raises(InputError, match="larger than the client's 4 images"):
        Client(client.victim, client.batch, LocalTraining(batch_size=5))


def test_batch_norm_statistics_after_training_are_torchs_own_and_no_attack_sees_them():
    client = tiny_client(model="resnet8", mode="train", epochs=3, batch_size=2, lr=0.01)
    w0, fresh = client.victim.weights(), client.victim.buffers()
    update = train(client, w0)
    seen = observe(update, client.victim, knowledge=Knowledge(), normalisation=client.batch.normalisation, labels=None)
    for name, value in client.victim.buffers().items():
        assert torch.equal(value, fresh[name])
        assert torch.equal(seen.buffers[name], fresh[name])
    module = client.victim.module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    x = client.batch.normalisation.apply(client.batch.images)
    for chosen in batches(4, client.training, seed=client.seed):
        optimiser.zero_grad()
        functional.cross_entropy(module(x[chosen]), client.batch.labels[chosen]).backward()
        optimiser.step()
    for name, value in module.named_buffers():
        torch.testing.assert_close(update.buffers_after[name], value, atol=1e-6, rtol=1e-4)
        assert not torch.equal(value, fresh[name])


def test_in_eval_mode_the_statistics_stay():
    client = tiny_client(model="resnet8", mode="eval")
    update = train(client, client.victim.weights())
    assert update.buffers_after.keys() == update.buffers.keys() != set()
    assert all(torch.equal(value, update.buffers[name]) for name, value in update.buffers_after.items())
