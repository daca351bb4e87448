"""Opacus: the recorded file tells what was sent and what was spent."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("opacus", reason="Opacus is not installed (extra `dp`)")

from opacus import PrivacyEngine

from leakscope.cells.record import Record
from leakscope.errors import InputError
from leakscope.integrations.opacus import recording
from leakscope.observation.update_file import read_update
from leakscope.report.guarantee import guarantee_of
from leakscope.types import stream

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]


def private_client(*, sigma=1.0, poisson=True, n=12):
    """What `make_private` gives back, and the raw model."""
    torch.manual_seed(0)
    x, y = torch.rand(n, 1, 8, 8, generator=stream(0, "opacus")), torch.arange(n) % 3
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
    engine = PrivacyEngine(accountant="prv")
    private = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=4),
        noise_multiplier=sigma,
        max_grad_norm=0.5,
        poisson_sampling=poisson,
    )
    return model, engine, *private


def train(model, optimizer, loader, epochs=2):
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


def test_the_file_holds_the_unwrapped_update_and_the_engine_s_epsilon(tmp_path):
    raw, engine, model, optimizer, loader = private_client()
    path = tmp_path / "a.update.safetensors"
    w0 = {name: value.detach().clone() for name, value in raw.named_parameters()}
    with recording(path, model, engine=engine, optimizer=optimizer, loader=loader):
        train(model, optimizer, loader)
    recorded = read_update(path)
    assert recorded.update.delta.keys() == w0.keys()
    for name, value in raw.named_parameters():
        assert torch.equal(recorded.update.delta[name], w0[name] - value.detach())
    training = recorded.update.training
    assert (training.epochs, training.batch_size, training.lr) == (2, 4, 0.1)
    assert (recorded.update.n, recorded.shape, recorded.classes) == (12, (1, 8, 8), 3)
    assert recorded.defense == "dpsgd:sigma=1,clip=0.5,poisson=on"
    notes = recorded.update.notes["dpsgd"]
    assert notes["accounted_epsilon"] == pytest.approx(engine.get_epsilon(1e-5), abs=0.02)
    assert (notes["steps"], notes["sampling_rate"]) == (6, pytest.approx(1 / 3))
    assert str(guarantee_of(Record(notes=dict(recorded.update.notes)))).startswith("epsilon")


def test_the_truth_may_be_numpy_and_is_left_as_it_was(tmp_path):
    _, engine, model, optimizer, loader = private_client()
    x, y = (part.numpy() for part in loader.dataset.tensors)
    before = y.copy()
    path = tmp_path / "a.update.safetensors"
    with recording(path, model, engine=engine, optimizer=optimizer, loader=loader, truth=(x, y)):
        train(model, optimizer, loader)
    assert read_update(path).labels.tolist() == sorted(before.tolist())
    assert y.tolist() == before.tolist()


def test_epsilon_adds_up_over_rounds(tmp_path):
    _, engine, model, optimizer, loader = private_client()
    spent = []
    for number in (1, 2):
        path = tmp_path / f"{number}.update.safetensors"
        with recording(path, model, engine=engine, optimizer=optimizer, loader=loader, round_=number, client="a"):
            train(model, optimizer, loader)
        recorded = read_update(path)
        assert (recorded.round, recorded.client) == (number, "a")
        assert recorded.update.notes["dpsgd"]["steps"] == 6
        spent.append(recorded.update.notes["dpsgd"]["accounted_epsilon"])
    assert spent[1] > spent[0]


def test_without_noise_there_is_no_epsilon_and_fixed_batches_are_said(tmp_path):
    path = tmp_path / "a.update.safetensors"
    for sigma, poisson, words in ((0.0, True, "no guarantee"), (1.0, False, "not covered")):
        _, engine, model, optimizer, loader = private_client(sigma=sigma, poisson=poisson)
        with recording(path, model, engine=engine, optimizer=optimizer, loader=loader):
            train(model, optimizer, loader)
        notes = read_update(path).update.notes["dpsgd"]
        assert words in notes["assumption"]
        assert (notes["accounted_epsilon"] is None) == (sigma == 0)


def test_what_make_private_did_not_make_is_refused():
    raw, engine, _, _, loader = private_client()
    plain = torch.optim.SGD(raw.parameters(), lr=0.1)
    with pytest.raises(InputError) as caught, recording("a.bin", raw, engine=engine, optimizer=plain, loader=loader):
        pass
    assert len(caught.value.problems) == 2


def test_nothing_is_written_when_training_fails(tmp_path):
    _, engine, model, optimizer, loader = private_client()
    with (
        pytest.raises(KeyboardInterrupt),
        recording(tmp_path / "a.update.safetensors", model, engine=engine, optimizer=optimizer, loader=loader),
    ):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
