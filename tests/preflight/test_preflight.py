"""What a look before the attack recognises: broken inputs with the right advice, and nothing on clean ones."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn import functional

from leakscope import data
from leakscope.cells.recorded import check_file
from leakscope.client.training import Client, Gradients, train
from leakscope.observation.update_file import RecordedUpdate, write_truth, write_update
from leakscope.preflight import examine
from leakscope.types import ClientBatch, LocalTraining, Normalisation, Update
from leakscope.victims import build_victim, restore_buffers
from small import small_client

SKEWED = torch.tensor([0, 0, 0, 0, 1, 1, 3, 3])


def skewed(*, seed: int = 0, labels: torch.Tensor = SKEWED, **options: object) -> Client:
    """Eight images, half of them of one class."""
    client = small_client(n=8, seed=seed, **{"batch_size": 4, "epochs": 3, **options})  # type: ignore[arg-type]
    return replace(client, batch=replace(client.batch, labels=labels))


def record(client: Client, *, gradients: Gradients | None = None, **changes: object) -> RecordedUpdate:
    made = RecordedUpdate(
        update=train(client, client.victim.weights(), gradients=gradients),
        model=client.victim.name,
        shape=client.victim.shape,
        classes=client.victim.classes,
        normalisation=client.batch.normalisation,
        labels=client.batch.labels.sort().values,
        defense="none",
        producer="a test",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def changed(recorded: RecordedUpdate, **parts: object) -> RecordedUpdate:
    return replace(recorded, update=replace(recorded.update, **parts))  # type: ignore[arg-type]


def with_training(recorded: RecordedUpdate, **settings: object) -> RecordedUpdate:
    return changed(recorded, training=replace(recorded.update.training, **settings))  # type: ignore[arg-type]


def mapped(recorded: RecordedUpdate, change) -> RecordedUpdate:
    return changed(recorded, delta={name: change(value) for name, value in recorded.update.delta.items()})


def swapped(recorded: RecordedUpdate) -> RecordedUpdate:
    update = recorded.update
    received = {name: value - update.delta[name] for name, value in update.w0.items()}
    return changed(recorded, w0=received, delta={name: -value for name, value in update.delta.items()})


def aggregated(recorded: RecordedUpdate) -> RecordedUpdate:
    others = [skewed(seed=seed, labels=torch.arange(8) % 5) for seed in (1, 2, 3)]
    w0 = recorded.update.w0
    updates = [train(replace(other, victim=skewed().victim), w0) for other in others]
    mean = {name: (value + sum(u.delta[name] for u in updates)) / 4 for name, value in recorded.update.delta.items()}
    return changed(recorded, delta=mean)


def halved(recorded: RecordedUpdate) -> RecordedUpdate:
    w0 = {name: value.half() for name, value in recorded.update.w0.items()}
    after = {name: (value - recorded.update.delta[name]).half() for name, value in recorded.update.w0.items()}
    return changed(recorded, w0=w0, delta={name: value - after[name] for name, value in w0.items()})


def pruned(value: torch.Tensor) -> torch.Tensor:
    return torch.where(value.abs() >= value.abs().flatten().double().quantile(0.9), value, 0)


def noisy(recorded: RecordedUpdate) -> RecordedUpdate:
    draw = torch.Generator().manual_seed(0)
    return mapped(recorded, lambda value: value + 1e-3 * torch.randn(value.shape, generator=draw))


def clipped(recorded: RecordedUpdate) -> RecordedUpdate:
    factor = 0.01 / recorded.update.norm()
    return mapped(recorded, lambda value: factor * value)


def squared_error(victim, weights, buffers, x, y) -> dict[str, torch.Tensor]:
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    target = functional.one_hot(y, victim.classes).float()
    loss = functional.mse_loss(victim.call(leaves, buffers, x), target)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def as_resnet(**options: object) -> RecordedUpdate:
    return record(skewed(model="resnet8", **options))


def other_classes(recorded: RecordedUpdate) -> RecordedUpdate:
    return replace(recorded, classes=7)


def with_extra(recorded: RecordedUpdate) -> RecordedUpdate:
    more = {"optimiser.step": torch.ones(1)}
    return changed(recorded, w0={**recorded.update.w0, **more}, delta={**recorded.update.delta, **more})


def prefixed(recorded: RecordedUpdate) -> RecordedUpdate:
    parts = {p: {f"_module.{k}": v for k, v in getattr(recorded.update, p).items()} for p in ("w0", "delta")}
    return changed(recorded, **parts)


PLAIN = Normalisation((0.0,), (1.0,))


def unnormalised() -> Client:
    client = skewed()
    return replace(client, batch=replace(client.batch, normalisation=PLAIN))


@dataclass(frozen=True)
class Broken:
    """One way in which an update file is not what it should be."""

    kind: str
    words: str
    """Of the message with its advice."""
    change: object = staticmethod(lambda recorded: recorded)
    severity: str = "warning"
    make: object = staticmethod(lambda: record(skewed()))
    spoil: object = None
    """What is done to the file on disk."""
    truth: bool = False


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def hide_a_pickle(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    hidden = torch.tensor(list(pickle.dumps({"run": "me"})), dtype=torch.uint8)
    save_file({**load_file(path), "optimiser": hidden}, path, header)


BROKEN = {
    "other model": Broken("model", "--model mlp-tiny", lambda r: replace(r, model="cnn-mnist"), "error",
                          lambda: record(skewed(model="mlp-tiny"))),
    "swapped": Broken("swapped", "update = w0 - wT", swapped, "error"),
    "swapped, with truth": Broken("swapped", "update = w0 - wT", swapped, "error", truth=True),
    "lr ten times too large": Broken("learning-rate", "0.01 would fit", lambda r: with_training(r, lr=0.1)),
    "lr ten times too small": Broken("learning-rate", "0.01 would fit", lambda r: with_training(r, lr=0.001)),
    "lr, with truth": Broken("learning-rate", "0.01 would fit", lambda r: with_training(r, lr=0.1), truth=True),
    "no normalisation said": Broken("normalisation", "mean, std", lambda r: replace(r, normalisation=None)),
    "half precision": Broken("half-precision", "float32", halved),
    "half precision, stored as float32": Broken("half-precision", "float32", lambda r: changed(
        halved(r), w0={k: v.float() for k, v in halved(r).update.w0.items()})),
    "extra keys": Broken("extra-keys", "without optimiser state", with_extra, "error"),
    "wrapped model": Broken("prefix", "drop '_module.'", prefixed, "error"),
    "other class count": Broken("classes", "classes=5", other_classes, "error"),
    "NaN": Broken("tensors", "not finite", lambda r: mapped(r, lambda v: v * float("nan")), "error"),
    "zero": Broken("tensors", "record w0 before training", lambda r: mapped(r, torch.zeros_like), "error"),
    "truncated": Broken("file", "is cut off", severity="error", spoil=cut),
    "pickle": Broken("file", "can run code", severity="error",
                     spoil=lambda path: path.write_bytes(pickle.dumps({"w0": 1}))),
    "pickle inside": Broken("file", "holds a pickle", severity="error", spoil=hide_a_pickle),
    "wrong labels": Broken("labels", "--labels recovered",
                           lambda r: replace(r, labels=torch.tensor([0, 2, 2, 2, 2, 4, 4, 4]))),
    "labels of another client, with truth": Broken("labels", "same client and round", lambda r: replace(
        r, labels=torch.tensor([0, 2, 2, 2, 2, 4, 4, 4])), "error", truth=True),
    "too few labels": Broken("file", "same client", lambda r: replace(r, labels=r.labels[:3]), "error"),
    "labels from 1": Broken("file", "count classes from 0", lambda r: replace(r, labels=r.labels + 2), "error"),
    "means of another image": Broken("file", "for each channel", lambda r: replace(
        r, normalisation=Normalisation((0.5, 0.5), (0.25, 0.25))), "error"),
    "aggregated": Broken("aggregated", "before aggregation", aggregated),
    "sparsified": Broken("sparsified", "--matching mask", lambda r: mapped(r, pruned)),
    "noised": Broken("noised", "--matching layerwise", noisy),
    "clipped": Broken("clipped", "which no clipping changes", clipped),
    "another loss": Broken("loss", "cross_entropy", make=lambda: record(skewed(), gradients=squared_error)),
    "another loss, as declared": Broken("loss", "no other loss", lambda r: replace(r, loss="mse"), "error"),
    "train mode": Broken("mode", "record mode='train'", lambda r: with_training(r, mode="eval"),
                         make=lambda: as_resnet(mode="train")),
    "eval mode": Broken("mode", "record mode='eval'", lambda r: with_training(r, mode="train"), make=as_resnet),
    "no buffers": Broken("buffers", "under buffers/", lambda r: changed(r, buffers={}), make=as_resnet),
    "normalised though said not to be": Broken("normalisation", "mean and deviation", lambda r: replace(
        r, normalisation=PLAIN), truth=True),
    "not normalised though said to be": Broken("normalisation", "mean 0 and std 1 for none", lambda r: replace(
        r, normalisation=Normalisation((0.5,), (0.25,))), make=lambda: record(unnormalised()), truth=True),
    "w0 of another round": Broken("unexplained", "same client and round", lambda r: changed(
        r, w0=skewed(seed=9).victim.weights()), truth=True),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_inputs_are_recognised_with_the_right_advice(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    path, truth = tmp_path / "a.update.safetensors", tmp_path / "a.truth.safetensors"
    write_update(path, broken.change(broken.make()))
    if broken.spoil is not None:
        broken.spoil(path)
    if broken.truth:
        batch = skewed().batch
        write_truth(truth, images=batch.images, labels=batch.labels, candidates=batch.images[:1], dataset="small")
    findings = check_file(path, truth_file=truth if broken.truth else None)
    ours = [finding for finding in findings if finding.kind == broken.kind]
    assert [finding.severity for finding in ours] == [broken.severity] * max(1, len(ours)), findings
    assert all(broken.words in str(finding) for finding in ours) or any(broken.words in str(f) for f in ours), findings
    others = {finding.kind for finding in findings} - {broken.kind, "batch-norm"}
    assert not others, findings


TRUTHS = {
    "fewer images": (lambda b: replace(b, images=b.images[:5], labels=b.labels[:5]), "images of (5, 1, 12, 12)"),
    "larger images": (lambda b: replace(b, images=torch.rand(8, 1, 28, 28)), "images of (8, 1, 28, 28)"),
    "colour images": (lambda b: replace(b, images=torch.rand(8, 3, 12, 12)), "update is of (8, 1, 12, 12)"),
    "more classes": (lambda b: replace(b, labels=b.labels + 4), "other than 5 classes"),
    "classes from -1": (lambda b: replace(b, labels=b.labels - 1), "other than 5 classes"),
    "soft labels of other classes": (lambda b: replace(b, labels=torch.rand(8, 4)), "other than 5 classes"),
    "bytes": (lambda b: replace(b, images=(255 * b.images).byte()), "uint8"),
    "fewer labels": (lambda b: replace(b, labels=b.labels[:3]), "labels are (3,)"),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_the_truth_of_another_data_set_is_said_before_any_number_is_looked_at(name: str, tmp_path: Path) -> None:
    change, words = TRUTHS[name]
    path, truth = tmp_path / "a.update.safetensors", tmp_path / "a.truth.safetensors"
    write_update(path, record(skewed()))
    batch = change(skewed().batch)
    write_truth(truth, images=batch.images, labels=batch.labels, candidates=batch.images[:1], dataset="small")
    findings = check_file(path, truth_file=truth)
    assert {finding.severity for finding in findings} == {"error"}
    assert all(finding.problem.fix for finding in findings)
    assert words in "\n".join(map(str, findings))


def examined(client: Client, *, truth: bool) -> list[str]:
    update = train(client, client.victim.weights())
    return _kinds(client, update, truth=truth)


def _kinds(client: Client, update: Update, *, truth: bool) -> list[str]:
    recorded = replace(record(client), update=update)
    restore_buffers(client.victim, update.buffers)
    found = examine(recorded, client.victim, truth=client.batch if truth else None)
    return [str(finding) for finding in found]


CLEAN = [
    *(("cnn-mnist", seed, {}) for seed in (0, 1, 2)),
    *(("cnn-mnist", seed, {"epochs": 1, "batch_size": 5}) for seed in (0, 1, 2)),
    ("cnn-mnist", 3, {"epochs": 1, "batch_size": 8}),
    ("cnn-mnist", 4, {"lr": 0.1, "epochs": 10}),
    ("cnn-mnist", 5, {"lr": 1e-5}),
    ("mlp", 0, {}),
    ("mlp-tiny", 1, {"epochs": 5}),
    ("resnet8", 2, {}),
    ("resnet8", 3, {"mode": "train", "batch_size": 8}),
]


@pytest.mark.parametrize(("model", "seed", "training"), CLEAN)
def test_no_false_alarm_on_clean_updates(model: str, seed: int, training: dict[str, object]) -> None:
    labels = torch.randint(5, (8,), generator=torch.Generator().manual_seed(seed))
    client = skewed(model=model, seed=seed, labels=labels, **training)
    assert examined(client, truth=True) == []


def drawn(dataset: str, *, model: str, seed: int, n: int, writer: str | None = None, **training: object) -> Client:
    source = data.load(dataset)
    batch: ClientBatch = data.draw_client(source, n=n, seed=seed, writer=writer)
    victim = build_victim(model, shape=source.shape, classes=source.classes, seed=seed)
    return Client(victim, batch, LocalTraining(**{"epochs": 2, "batch_size": 5, **training}), seed)  # type: ignore[arg-type]


def test_no_false_alarm_on_photographs() -> None:
    client = drawn("photos", model="cnn-mnist", seed=3, n=10)
    assert examined(client, truth=False) == examined(client, truth=True) == []


@pytest.mark.skipif("LEAKSCOPE_DATA" not in os.environ, reason="LEAKSCOPE_DATA is not set")
@pytest.mark.parametrize(("writer", "lr"), [("2", 0.004), ("23", 0.05)])
def test_no_false_alarm_on_handwriting(writer: str, lr: float) -> None:
    client = drawn("femnist", model="cnn-mnist", seed=0, n=20, writer=writer, lr=lr)
    assert examined(client, truth=False) == examined(client, truth=True) == []


def test_no_false_alarm_in_a_later_round() -> None:
    """Two rounds on, with the weights that the client itself made."""
    client = skewed(lr=0.1, epochs=20)
    w = client.victim.weights()
    for _ in range(2):
        update = train(client, w)
        w = {name: value - update.delta[name] for name, value in w.items()}
    assert _kinds(client, train(client, w), truth=True) == []


def test_what_a_declared_defense_does_is_no_surprise() -> None:
    recorded = mapped(record(skewed(), defense="sparsify:rate=0.9"), pruned)
    assert examine(recorded, skewed().victim) == ()


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"optimizer": "adam"}, "optimiser"), ({"momentum": 0.9}, "momentum"), ({"weight_decay": 1.0}, "weight-decay")],
)
def test_settings_that_break_the_assumption_are_said(settings: dict[str, object], kind: str) -> None:
    client = skewed(**settings)
    assert [finding.kind for finding in examine(record(client), client.victim)] == [kind]
