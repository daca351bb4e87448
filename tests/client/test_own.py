"""A client of one's own: any classifier, honest about its mode and optimiser, resumable by content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import leakscope
from leakscope.attacks import build_attack
from leakscope.cells.request import Request
from leakscope.cells.scene import own_scene
from leakscope.client.own import LocalClient, load_client
from leakscope.errors import InputError
from leakscope.types import Normalisation
from own_clients import Tied, normed, own

QUICK = {"iterations": 3, "history": 1, "attacks": ["sme"]}


def scene_of(client: LocalClient):
    (cell,) = Request(client=client, **QUICK).cells()
    return own_scene(cell, client)


def reference_training(client: LocalClient, optimiser: type[torch.optim.Optimizer], **options: object) -> nn.Module:
    """The same training written as anybody would: module, loss, optimiser."""
    ours = client.client(0)
    module = ours.victim.module
    module.train(client.training.mode == "train")
    step = optimiser(module.parameters(), lr=client.training.lr, **options)
    x, y = ours.batch.normalisation.apply(ours.batch.images), ours.batch.labels
    from leakscope.client.training import batches

    torch.manual_seed(0)
    for chosen in batches(len(x), client.training, seed=0):
        step.zero_grad()
        nn.functional.cross_entropy(module(x[chosen]), y[chosen]).backward()
        step.step()
    return module


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize(
    ("training", "optimiser", "options"),
    [
        ({}, torch.optim.SGD, {}),
        ({"momentum": 0.9, "weight_decay": 0.01}, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.01}),
        ({"optimizer": "adam", "lr": 0.001}, torch.optim.Adam, {}),
    ],
)
def test_it_trains_as_plain_torch_does(mode, training, optimiser, options) -> None:
    """Batch norm, dropout and optimiser as a plain training loop has them: the same weights in the end."""
    client = own(training={"mode": mode, **training})
    with torch.random.fork_rng():
        module = reference_training(client, optimiser, **options)
    update = scene_of(client).update
    for name, value in module.named_parameters():
        assert torch.allclose(update.w0[name] - update.delta[name], value.detach(), atol=1e-6), name


def test_soft_targets_train_and_are_attacked() -> None:
    soft = torch.softmax(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    scene = scene_of(own(labels=soft))
    assert scene.observation.labels.shape == (6, 5)
    assert {tuple(row) for row in scene.observation.labels.tolist()} == {tuple(row) for row in soft.tolist()}
    found = replace(build_attack("nl-sme", {}), iterations=2)(scene.observation)
    assert found.images.shape == (6, 1, 12, 12)


def test_tied_frozen_and_unused_weights() -> None:
    scene = scene_of(own(Tied, normalisation=None))
    names = scene.update.delta.keys()
    assert not {"second.weight", "frozen.weight"} & names
    assert float(scene.update.delta["unused"].abs().sum()) == 0
    assert float(scene.update.delta["first.weight"].abs().sum()) > 0
    found = replace(build_attack("span-sme", {}), iterations=2)(scene.observation)
    assert bool(found.images.isfinite().all())


def test_what_breaks_the_attacks_assumption_is_said() -> None:
    kinds = [f.kind for f in scene_of(own(training={"mode": "train", "momentum": 0.9}, candidates=None)).findings]
    assert kinds == ["momentum", "dropout", "batch-norm", "candidates"]
    assert scene_of(own()).findings == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": torch.rand(6, 12, 12, 1)}, "permute"),
        ({"images": 3 * torch.rand(6, 1, 12, 12)}, "before normalisation"),
        ({"labels": torch.tensor([0, 1, 2, 3, 4, 5])}, "with 5 classes"),
        ({"labels": torch.tensor([0, 1])}, "for 6 images"),
        ({"labels": torch.ones(6, 5)}, "add up to one"),
        ({"loss": "mse"}, "not supported"),
        ({"normalisation": Normalisation((0.5,) * 3, (0.25,) * 3)}, "3 channels"),
        ({"candidates": torch.rand(2, 1, 8, 8)}, "candidates are"),
    ],
)
def test_problems_of_a_client_are_explained(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        own(**changes)


def test_options_that_the_client_brings_itself_are_refused_all_at_once() -> None:
    with pytest.raises(InputError) as refused:
        Request(client=own(), n=7, lr=1.0, dataset="femnist").cells()
    assert [problem.found.split()[0] for problem in refused.value.problems] == ["--dataset", "--n", "--lr"]


def test_the_key_follows_the_content_alone() -> None:
    def key(client: LocalClient, **options: object) -> str:
        return Request(client=client, **{**QUICK, **options}).cells()[0].key

    first = own()
    assert key(first) == key(own())
    brighter = own(images=(first.images + 0.01).clamp(0, 1))
    others = [brighter, own(Tied), own(labels=first.labels.flip(0)), own(training={"momentum": 0.9}), own(classes=5)]
    assert [key(other) == key(first) for other in others] == [False, False, False, False, True]
    assert key(first, seed=1) != key(first)


def test_a_client_that_changed_since_the_plan_is_refused() -> None:
    (cell,) = Request(client=own(), **QUICK).cells()
    with pytest.raises(InputError, match="not what this run was planned with"):
        own_scene(cell, own(images=own().images.flip(0)))


def test_a_factory_without_a_seed_is_refused() -> None:
    state = iter(range(100))

    def restless() -> nn.Module:
        module = normed()
        with torch.no_grad():
            next(module.parameters()).add_(next(state))
        return module

    with pytest.raises(InputError, match="other weights every time"):
        own(restless).fingerprint  # noqa: B018


def test_audit_from_python_finishes_and_is_not_run_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = leakscope.audit(client=own(), out=out, **QUICK)
    assert (first.cells[0]["dataset"], first.cells[0]["w0"], first.cells[0]["client"]["mode"]) == ("own", "own", "eval")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")}
    again = leakscope.audit(client=own(), out=out, **QUICK)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")} == before
    assert again.cells == first.cells


def test_a_lambda_cannot_go_to_other_processes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lambda"):
        leakscope.audit(client=own(lambda: normed()), out=tmp_path / "run", workers=2, **QUICK)


def test_load_client_says_what_it_found(tmp_path: Path) -> None:
    path = tmp_path / "odd_client.py"
    path.write_text("number = 3\n")
    for reference, words in (
        (f"{path}:number", "is a int"),
        (f"{path}:nobody", "is nothing"),
        ("x", "names no client"),
    ):
        with pytest.raises(InputError, match=words):
            load_client(reference)


def test_no_images_and_a_single_class_are_explained() -> None:
    with pytest.raises(InputError, match="images are"):
        own(images=torch.zeros(0, 1, 12, 12), labels=torch.zeros(0, dtype=torch.long))
    with pytest.raises(InputError, match="two or more"):
        own(labels=torch.zeros(6, dtype=torch.long), classes=1)


def test_training_that_diverged_is_refused() -> None:
    with pytest.raises(InputError, match="training diverged"):
        scene_of(own(training={"lr": 1e6, "epochs": 3}))


def test_labels_are_recovered_behind_a_frozen_bias() -> None:
    def frozen() -> nn.Module:
        net = nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.ReLU(), nn.Linear(16, 5))
        net[3].bias.requires_grad_(False)
        return net

    (cell,) = Request(client=own(frozen), labels="recovered", **QUICK).cells()
    found = replace(build_attack("sme", {}), iterations=2)(own_scene(cell, own(frozen)).observation)
    assert found.labels.shape == (6,)
