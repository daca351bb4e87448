"""Flower: what is recorded is what left the client, and recording changes nothing."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

pytest.importorskip("flwr", reason="Flower is not installed (extra `flower`)")

from flwr.app import Array, ArrayRecord
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import FedAvg

import federation
from command_line import succeed
from federation import TRAINING, client_app, federate, net, random_batch
from leakscope import data
from leakscope.integrations.flower import LeakageAudit, LeakageRecorder
from leakscope.observation.update_file import read_truth, read_update
from leakscope.victims import build_victim


def one(folder, pattern="*.update.safetensors"):
    (path,) = folder.glob(pattern)
    return read_update(path)


def quiet(**options):
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1, **options)


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """The same client twice: by `leakscope simulate`, and as a Flower app with the recorder on."""
    folder = tmp_path_factory.mktemp("twins")
    settings = ["--n", "4", "--epochs", "2", "--batch-size", "2", "--lr", "0.00390625", "--seed", "0", "--round", "1"]
    succeed("simulate", folder / "mine", "--model", "cnn-mnist", *settings)
    photos = data.load("photos")
    batch = data.draw_client(photos, n=4, seed=0)

    def private(_):
        return batch.images, batch.labels, data.held_out(photos, avoid=batch, count=1000, seed=0)

    def model():
        return build_victim("cnn-mnist", shape=photos.shape, classes=photos.classes, seed=0).module

    recorder = LeakageRecorder(folder, model="cnn-mnist", normalisation=batch.normalisation, truth=private)
    app = client_app([recorder], model, batch=batch, training=replace(TRAINING, mode="eval"))
    federate(app, ArrayRecord(model().state_dict()))
    return folder / "mine.update.safetensors", folder / "client-0.round-001.update.safetensors"


def content(path):
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        return tensors, json.loads(file.metadata()["leakscope"])


def test_a_flower_client_and_our_simulator_write_the_same_file(twins):
    (ours, mine), (theirs, flower) = map(content, twins)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype
        assert torch.equal(value, theirs[name]), name
    assert flower.pop("producer").startswith("flower")
    assert mine.pop("producer").startswith("leakscope")
    assert flower == mine


def test_attacking_either_file_gives_the_same_result(twins, tmp_path):
    results = []
    for path in twins:
        out = tmp_path / path.name
        succeed("attack", path, "--attack", "sme", "--iterations", 3, "--out", out)
        (cell,) = json.loads((out / "result.json").read_text())["cells"]
        with safe_open(out / "cells" / cell["key"] / "images.safetensors", framework="pt") as file:
            results.append((cell["metrics"], cell["client"], cell["round"], file.get_tensor("reconstructions")))
    assert results[0][:3] == results[1][:3]
    assert torch.equal(results[0][3], results[1][3])
    assert results[0][2] == 1


def test_training_is_seen_not_declared(tmp_path):
    federate(client_app([LeakageRecorder(tmp_path)]), ArrayRecord(net().state_dict()), rounds=2, clients=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"client-{client}.round-00{number}.update.safetensors" for client in (0, 1) for number in (1, 2)
    ]
    recorded = one(tmp_path, "client-1.round-002.*")
    assert recorded.update.training == TRAINING
    assert (recorded.update.n, recorded.shape, recorded.classes) == (4, (1, 8, 8), 3)
    assert (recorded.round, recorded.client, recorded.loss) == (2, "1", "cross_entropy")
    assert recorded.labels is None


def test_the_first_mod_sees_what_leaves_and_the_last_what_was_trained(tmp_path):
    noisy = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=5.0, delta=1e-5)
    mods = [LeakageRecorder(tmp_path, tag="sent"), noisy, LeakageRecorder(tmp_path, tag="trained")]
    start = ArrayRecord(net().state_dict())
    final = federate(client_app(mods), start)
    sent, trained = one(tmp_path, "*.sent.*"), one(tmp_path, "*.trained.*")
    assert sent.update.norm() > 2 * trained.update.norm()
    assert (sent.tag, trained.tag) == ("sent", "trained")
    for name, value in final.arrays.to_torch_state_dict().items():
        assert torch.allclose(sent.update.w0[name] - sent.update.delta[name], value, atol=1e-6)


def test_recording_changes_no_message():
    start = ArrayRecord(net().state_dict())
    plain = federate(client_app([]), start, rounds=2, clients=2, strategy=quiet())
    watched = federate(client_app([LeakageRecorder("/dev/null/nowhere")]), start, rounds=2, clients=2, strategy=quiet())
    for name, value in plain.arrays.to_torch_state_dict().items():
        assert torch.equal(value, watched.arrays.to_torch_state_dict()[name])


@pytest.mark.parametrize("where", ["run", "environment"])
def test_settings_are_read_when_a_message_comes(where, tmp_path, monkeypatch):
    app = client_app([LeakageRecorder("/dev/null/nowhere", every=5)])
    told = {"leakscope.every": 2, "leakscope.out": str(tmp_path), "leakscope.defense": "clip:bound=1.0"}
    if where == "environment":
        for name, value in told.items():
            monkeypatch.setenv(name.replace("leakscope.", "LEAKSCOPE_FLOWER_").upper(), str(value))
        told = {}
    federate(app, ArrayRecord(net().state_dict()), rounds=3, run_config=told)
    assert sorted(path.name[9:18] for path in tmp_path.iterdir()) == ["round-001", "round-003"]
    assert one(tmp_path, "*round-003*").defense == "clip:bound=1"


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))


class Odd(nn.Module):
    """A scalar parameter, a tied one, a frozen one and a float buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.first, self.frozen, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 3)
        self.again = nn.Linear(64, 64)
        self.again.weight = self.first.weight
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.ones(64))

    def forward(self, x):
        return self.scale * self.last(self.again(self.frozen(self.first(x.flatten(1)))) + self.shift)


def test_statistics_and_counters_are_kept_apart_as_they_were_sent(tmp_path):
    federate(client_app([LeakageRecorder(tmp_path)], normed), ArrayRecord(normed().state_dict()))
    update = one(tmp_path).update
    assert list(update.buffers) == ["1.num_batches_tracked", "1.running_mean", "1.running_var"]
    assert update.buffers["1.num_batches_tracked"].dtype == torch.int64
    assert torch.equal(update.buffers["1.running_mean"], torch.zeros(2))
    assert update.buffers_after.keys() == update.buffers.keys()
    assert update.buffers_after["1.num_batches_tracked"] > update.buffers["1.num_batches_tracked"]
    assert not torch.equal(update.buffers_after["1.running_mean"], update.buffers["1.running_mean"])
    assert set(update.w0) == {name for name, _ in normed().named_parameters()}


def test_scalars_tied_and_frozen_tensors(tmp_path):
    federate(client_app([LeakageRecorder(tmp_path)], Odd), ArrayRecord(Odd().state_dict()))
    update = one(tmp_path).update
    trained = {name for name, value in Odd().named_parameters() if value.requires_grad}
    assert set(update.delta) == trained
    assert update.delta["scale"].shape == ()
    assert set(update.buffers) == {"frozen.weight", "frozen.bias", "shift"}


@pytest.mark.parametrize("pattern", ["_module.{name}", "_orig_mod._module.{name}", "{place}"])
def test_wrapped_and_numbered_names(pattern, tmp_path):
    def send(model):
        named = enumerate(model.state_dict().items())
        return ArrayRecord({pattern.format(place=i, name=name): Array(value.numpy()) for i, (name, value) in named})

    federate(client_app([LeakageRecorder(tmp_path)], send=send), send(net()))
    assert set(one(tmp_path).update.delta) == set(net().state_dict())


def test_half_precision_is_widened_and_said(tmp_path):
    def send(model):
        return ArrayRecord({name: Array(value.half().numpy()) for name, value in model.state_dict().items()})

    torch.manual_seed(0)
    start = net()
    federate(client_app([LeakageRecorder(tmp_path)], send=send), send(start))
    update = one(tmp_path).update
    assert {value.dtype for value in (*update.w0.values(), *update.delta.values())} == {torch.float32}
    assert torch.equal(update.w0["1.weight"], start[1].weight.detach().half().float())
    assert update.notes == {"sent_as": ["float16"]}


SOFT = [[0.9, 0.1, 0.0], [0.0, 0.25, 0.75], [0.1, 0.8, 0.1], [0.9, 0.0, 0.1]]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
@pytest.mark.parametrize(
    ("labels", "told"), [([2, 0, 1, 0], [0, 0, 1, 2]), (SOFT, [SOFT[0], SOFT[3], SOFT[2], SOFT[1]])]
)
def test_the_truth_is_copied_and_its_labels_are_told_out_of_order(labels, told, kind, tmp_path):
    mine = kind(random_batch()[0].tolist()), kind(labels)
    federate(client_app([LeakageRecorder(tmp_path, truth=lambda _: mine)]), ArrayRecord(net().state_dict()))
    assert mine[1].tolist() == kind(labels).tolist()
    assert torch.equal(one(tmp_path).labels, torch.tensor(told))
    (path,) = tmp_path.glob("*.truth.safetensors")
    images, own, _, _ = read_truth(path)
    assert torch.equal(images, random_batch()[0])
    assert torch.equal(own, torch.tensor(labels))


def failing(*_):
    assert random_batch() is None, "no such client"


@pytest.mark.parametrize(
    ("recorder", "words"),
    [
        (LeakageRecorder("/dev/null/nowhere"), "Not a directory"),
        (LeakageRecorder("u", truth=lambda context: context.run_config["data"]), "'data'"),
        (LeakageRecorder("u", truth=lambda context: context.dataset), "AttributeError: 'Context' object has no"),
        (LeakageRecorder("u", truth=failing), "AssertionError: no such client"),
        (LeakageRecorder("u", truth=lambda _: None), "TypeError"),
        (LeakageRecorder("u", truth=lambda _: random_batch(3)), "the client trained on"),
        (LeakageRecorder("u", truth=lambda _: (random_batch()[0], torch.rand(4))), "(4,) whole numbers"),
        (LeakageRecorder("u", truth=lambda _: (random_batch()[0], np.zeros((4, 1), int))), "labels of shape (4, 1)"),
        (LeakageRecorder("u", truth=lambda _: (random_batch()[0] * 255, random_batch()[1])), "outside"),
    ],
)
def test_what_cannot_be_recorded_is_said_and_the_round_goes_on(recorder, words, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.ERROR, logger="flwr"):
        logging.getLogger("flwr").addHandler(caplog.handler)
        final = federate(client_app([recorder]), ArrayRecord(net().state_dict()))
        logging.getLogger("flwr").removeHandler(caplog.handler)
    assert final.arrays
    assert words in caplog.text
    assert not list(tmp_path.rglob("*.safetensors"))


class Unwatchable(nn.Flatten):
    def state_dict(self, *_, **__):
        raise AttributeError("nothing to see here")


class Helped(nn.Module):
    """Calls a module that is none of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.helpers = nn.Linear(64, 3), (Unwatchable(),)

    def forward(self, x):
        return self.last(self.helpers[0](x))


def test_what_cannot_be_watched_is_said_and_the_round_goes_on(tmp_path, caplog):
    torch.manual_seed(0)
    start = ArrayRecord(Helped().state_dict())
    alone = federate(client_app([], Helped), start)
    logging.getLogger("flwr").addHandler(caplog.handler)
    watched = federate(client_app([LeakageRecorder(tmp_path)], Helped), start)
    logging.getLogger("flwr").removeHandler(caplog.handler)
    assert "not recorded: AttributeError: nothing to see here" in caplog.text
    assert not list(tmp_path.iterdir())
    for name, value in alone.arrays.to_torch_state_dict().items():
        assert torch.equal(value, watched.arrays.to_torch_state_dict()[name])


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
def test_a_compiled_model_is_watched_without_a_break_in_its_graph(tmp_path, monkeypatch):
    def train(model, *data, **options):
        plainly(torch.compile(model, backend="eager", fullgraph=True), *data, **options)

    plainly = federation.train_plainly
    monkeypatch.setattr(federation, "train_plainly", train)
    federate(client_app([LeakageRecorder(tmp_path)]), ArrayRecord(net().state_dict()))
    recorded = one(tmp_path)
    assert (recorded.update.training, recorded.update.n, recorded.shape) == (TRAINING, 4, (1, 8, 8))


def test_a_server_sees_what_the_client_sent(tmp_path):
    strategy = LeakageAudit(quiet(weighted_by_key="num-examples"), tmp_path / "server", shape=(1, 8, 8), every=2)
    settings = {"lr": TRAINING.lr, "local-epochs": 2, "batch-size": 2}
    start = ArrayRecord(normed().state_dict())
    app = client_app([LeakageRecorder(tmp_path / "client")], normed)
    audited = federate(app, start, strategy=strategy, rounds=3, train_config=settings)
    assert sorted(path.name for path in (tmp_path / "server").iterdir()) == [
        f"node-1.round-00{number}.update.safetensors" for number in (1, 3)
    ]
    there, here = one(tmp_path / "server", "*round-003*"), one(tmp_path / "client", "*round-003*")
    for mine, other in ((there.update.w0, here.update.w0), (there.update.delta, here.update.delta)):
        assert mine.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in mine.items())
    assert there.update.training == here.update.training
    assert (there.shape, there.classes, there.update.n) == (here.shape, here.classes, here.update.n)
    alone = federate(client_app([], normed), start, strategy=quiet(), rounds=3, train_config=settings)
    for name, value in alone.arrays.to_torch_state_dict().items():
        assert torch.equal(value, audited.arrays.to_torch_state_dict()[name])


def test_the_wrapped_strategy_keeps_its_own_loop_and_attributes():
    class Own(FedAvg):
        def start(self, **options):
            return type(self).__name__, self.weighted_by_key, options

    assert LeakageAudit(Own(weighted_by_key="weight")).start(a=1) == ("LeakageAudit", "weight", {"a": 1})


def test_a_server_says_what_it_was_not_told(tmp_path, caplog):
    logging.getLogger("flwr").addHandler(caplog.handler)
    federate(client_app([]), ArrayRecord(net().state_dict()), strategy=LeakageAudit(quiet(), tmp_path))
    logging.getLogger("flwr").removeHandler(caplog.handler)
    for name in ("shape", "epochs", "batch_size", "lr"):
        assert f"{name} is not known" in caplog.text
    assert not list(tmp_path.iterdir())
