"""The update file."""

import pickle
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from leakscope.client import train
from leakscope.errors import InputError
from leakscope.observation import check_update
from leakscope.types import Update
from leakscope.update_file import RecordedUpdate, read_truth, read_update, write_truth, write_update
from scenes import tiny_client


@pytest.fixture(params=["cnn-mnist", "resnet8"])
def recorded(request) -> RecordedUpdate:
    client = tiny_client(model=request.param)
    return RecordedUpdate(
        update=train(client, client.victim.weights()),
        model=request.param,
        shape=client.victim.shape,
        classes=client.victim.classes,
        normalisation=client.batch.normalisation,
        labels=client.batch.labels.sort().values,
        defense="none",
        producer="a test",
        round=3,
    )


def test_what_is_written_is_read(recorded, tmp_path):
    path = tmp_path / "a.update.safetensors"
    write_update(path, recorded)
    again = read_update(path)
    for mine, theirs in ((recorded.update.w0, again.update.w0), (recorded.update.delta, again.update.delta)):
        assert list(mine) == [name for name in mine if name in theirs]
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert all(torch.equal(recorded.update.buffers[name], again.update.buffers[name]) for name in again.update.buffers)
    assert again.update.training == recorded.update.training
    assert again.labels.tolist() == recorded.labels.tolist()
    assert (again.model, again.shape, again.classes, again.n if hasattr(again, "n") else again.update.n) == (
        recorded.model,
        recorded.shape,
        recorded.classes,
        recorded.update.n,
    )
    assert again.normalisation == recorded.normalisation
    assert again.round == 3


def test_the_guarantee_and_the_client_are_told_and_nothing_else_that_a_defense_noted(recorded, tmp_path):
    notes = {"dpsgd": {"accounted_epsilon": 3.5}, "censor": {"loss_before": 0.1}}
    path = tmp_path / "a.update.safetensors"
    write_update(path, replace(recorded, update=replace(recorded.update, notes=notes), client="7"))
    again = read_update(path)
    assert again.update.notes == {"dpsgd": {"accounted_epsilon": 3.5}}
    assert again.client == "7"


def broken(path, kind, recorded):
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"w0": 1}))
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        write_update(path, recorded)
        path.write_bytes(path.read_bytes()[:-1000])
    elif kind == "foreign":
        save_file({"a": torch.ones(2)}, path)


@pytest.mark.parametrize("kind", ["pickle", "empty", "truncated", "foreign", "absent"])
def test_files_of_another_kind_are_refused(kind, recorded, tmp_path):
    path = tmp_path / "b.update.safetensors"
    broken(path, kind, recorded)
    with pytest.raises(InputError):
        read_update(path)


def test_truth_is_a_file_apart(tmp_path):
    client = tiny_client()
    path = tmp_path / "a.truth.safetensors"
    images, labels = client.batch.images, client.batch.labels
    write_truth(path, images=images, labels=labels, candidates=images[:2], dataset="tiny")
    read = read_truth(path)
    assert torch.equal(read[0], images)
    assert read[3] == "tiny"


def altered(update: Update, change) -> Update:
    delta = {name: value.clone() for name, value in update.delta.items()}
    change(delta)
    return Update(update.w0, delta, update.training, update.n)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("0.weight"), "lacks '0.weight'"),
        (lambda d: d.update(extra=torch.ones(2)), "has 'extra'"),
        (lambda d: d.update({"0.bias": torch.ones(3)}), "is \\(3,\\)"),
        (lambda d: d.update({"0.bias": torch.ones(32, dtype=torch.int32)}), "int32"),
        (lambda d: d["0.bias"].fill_(float("nan")), "not finite"),
        (lambda d: [value.zero_() for value in d.values()], "all zero"),
    ],
)
def test_an_update_that_the_model_cannot_have_sent(change, words):
    client = tiny_client()
    update = altered(train(client, client.victim.weights()), change)
    with pytest.raises(InputError, match=words):
        check_update(update, client.victim)


def test_all_problems_are_said_at_once():
    client = tiny_client()

    def change(delta):
        delta.pop("0.weight")
        delta["0.bias"].fill_(float("inf"))
        delta["extra"] = torch.ones(1)

    with pytest.raises(InputError) as caught:
        check_update(altered(train(client, client.victim.weights()), change), client.victim)
    assert len(caught.value.problems) == 3
