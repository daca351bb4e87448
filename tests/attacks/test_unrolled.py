"""The simulated client: the same steps as the real one, and the exact way back through them."""

import math
import weakref

import pytest
import torch
from torch.nn import functional

from leakscope.attacks.baselines import unrolled
from leakscope.attacks.calculus import Autograd
from leakscope.attacks.known import Known
from leakscope.attacks.passes import Passes
from leakscope.attacks.unrolled import Simulation, Unrolled
from leakscope.client.training import batches, train
from leakscope.errors import InputError
from leakscope.observation.firewall import observe
from leakscope.types import Knowledge, LocalTraining
from scenes import tiny_client, tiny_observation

TRAININGS = {
    "plain": {"epochs": 3, "lr": 0.1},
    "momentum and decay": {"epochs": 3, "lr": 0.1, "momentum": 0.9, "weight_decay": 0.05},
    "an uneven last batch": {"n": 5, "epochs": 2, "batch_size": 2, "lr": 0.1},
}


def seen_by(part: Unrolled, known: Known, *inputs: torch.Tensor):
    return part.linearise({}, known, inputs, Passes(known, Autograd()))


@pytest.mark.parametrize("training", TRAININGS)
def test_the_true_images_in_the_true_order_give_the_true_update(training):
    client = tiny_client(**TRAININGS[training])
    update = train(client, client.victim.weights())
    seen = observe(
        update,
        client.victim,
        knowledge=Knowledge(),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
    )
    known = Known.of(seen, torch.device("cpu"), torch.float64)
    known = known.__class__(**{**vars(known), "labels": client.batch.labels})
    order = tuple(tuple(batch.tolist()) for batch in batches(len(client.batch), client.training, seed=client.seed))
    x = client.batch.normalisation.apply(client.batch.images).double()
    *simulated, _ = seen_by(Unrolled(steps="full", order=order), known, x)[0]
    torch.testing.assert_close(known.join(simulated), known.delta, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("steps", ["full", "epochs", "coarse"])
@pytest.mark.parametrize("training", TRAININGS)
def test_the_adjoint_is_autograd_to_the_last_digits(training, steps):
    client = tiny_client(**TRAININGS[training])
    known = Known.of(tiny_observation(client), torch.device("cpu"), torch.float64)
    x = torch.randn(known.n, *known.shape, dtype=torch.float64, requires_grad=True)
    part = Unrolled(steps=steps, count=3)
    outputs, pull = seen_by(part, known, x.detach())
    slopes = tuple(torch.randn_like(value) for value in outputs)
    w = known.w0.clone().requires_grad_()
    move = torch.zeros_like(w)
    for step in part.plan(known, known.n):
        weights = {**known.split(w), **known.buffers}
        logits = torch.func.functional_call(known.module, weights, (x[step.batch],))
        loss = functional.cross_entropy(logits, known.labels[step.batch])
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        settings = client.training
        move = settings.momentum * move + step.rate * (g + settings.weight_decay * w)
        w = w - move
    update = known.split(known.w0 - w)
    total = sum((value * slope).sum() for value, slope in zip(update.values(), slopes, strict=False))
    (expected,) = torch.autograd.grad(total, x)
    torch.testing.assert_close(pull(slopes)[0], expected, rtol=1e-9, atol=1e-12)


def test_learned_labels_have_a_gradient_too():
    known = Known.of(tiny_observation(labels="none"), torch.device("cpu"), torch.float64)
    x = torch.randn(known.n, *known.shape, dtype=torch.float64)
    y = torch.softmax(torch.randn(known.n, known.classes, dtype=torch.float64), dim=1)
    part = Unrolled(steps="full")
    outputs, pull = seen_by(part, known, x, y)
    slopes = tuple(torch.randn_like(value) for value in outputs)
    slopes = (*slopes[:-1], torch.zeros_like(slopes[-1]))

    def value(y: torch.Tensor) -> float:
        found, _ = seen_by(part, known, x, y)
        return float(sum((a * b).sum() for a, b in zip(found, slopes, strict=True)))

    along, small = torch.randn_like(y), 1e-6
    numeric = (value(y + small * along) - value(y - small * along)) / (2 * small)
    assert float((pull(slopes)[1] * along).sum()) == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("epochs", [2, 8, 32])
def test_memory_grows_with_the_square_root_of_the_steps(epochs, monkeypatch):
    known = Known.of(tiny_observation(tiny_client(epochs=epochs)), torch.device("cpu"))
    steps = known.training.steps(known.n)
    alive, most = set(), [0]
    move = Simulation.move

    def counted(self, state, step):
        new, loss = move(self, state, step)
        name = len(most)
        alive.add(name)
        most.append(len(alive))
        weakref.finalize(new.w, alive.discard, name)
        return new, loss

    monkeypatch.setattr(Simulation, "move", counted)
    outputs, pull = seen_by(Unrolled(steps="full"), known, torch.randn(known.n, *known.shape))
    pull(tuple(torch.randn_like(value) for value in outputs))
    assert max(most) <= 2 * math.sqrt(steps) + 3
    assert not alive - {len(most) - 1}


def test_coarse_steps_cover_the_same_way():
    known = Known.of(tiny_observation(tiny_client(epochs=6, lr=0.02)), torch.device("cpu"))
    way = known.training.lr * known.training.steps(known.n)
    for part in (Unrolled(steps="full"), Unrolled(steps="epochs"), Unrolled(count=3), Unrolled()):
        assert sum(step.rate for step in part.plan(known, known.n)) == pytest.approx(way)
    assert len(Unrolled().plan(known, known.n)) == 5
    assert max(step.rate for step in Unrolled().plan(known, known.n)) <= 0.1


def test_every_epoch_has_its_own_copies():
    known = Known.of(tiny_observation(tiny_client(epochs=3)), torch.device("cpu"))
    for steps in ("full", "epochs"):
        plan = Unrolled(steps=steps).plan(known, 3 * known.n)
        used = torch.cat([step.batch for step in plan])
        assert sorted(used.tolist()) == list(range(3 * known.n))


@pytest.mark.parametrize(
    ("training", "reason"),
    [({"optimizer": "adam"}, "cannot simulate a client that trains with adam"), ({"momentum": 0.5}, "momentum of 0.5")],
)
def test_what_cannot_be_simulated_is_refused(training, reason):
    client = tiny_client(**training)
    assert isinstance(client.training, LocalTraining)
    with pytest.raises(InputError, match=reason):
        unrolled()(tiny_observation(client))
