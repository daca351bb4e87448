"""The update file."""

import json
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from leakscope.client.training import train
from leakscope.errors import InputError
from leakscope.observation.firewall import check_update
from leakscope.observation.update_file import HEADER, RecordedUpdate, read_truth, read_update, write_truth, write_update
from leakscope.types import LocalTraining, Normalisation, Update
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
    for before, read in (
        (recorded.update.buffers, again.update.buffers),
        (recorded.update.buffers_after, again.update.buffers_after),
    ):
        assert before.keys() == read.keys()
        assert all(torch.equal(before[name], read[name]) for name in before)
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
    write_update(path, replace(recorded, update=replace(recorded.update, notes=notes), client="7", tag="sent"))
    again = read_update(path)
    assert again.tag == "sent"
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


SAID = {
    "format": 1,
    "model": "cnn-mnist",
    "shape": [3, 12, 12],
    "classes": 5,
    "n": 4,
    "training": {"epochs": 2, "batch_size": 2, "lr": 0.01, "mode": "eval", "optimizer": "sgd", "momentum": 0},
    "normalisation": {"mean": [0.5, 0.5, 0], "std": [0.25, 0.25, 1]},
    "labels": [0, 1, 1, 4],
    "defense": "none",
    "round": 7,
    "client": "a",
    "notes": {},
}
"""A header as somebody else would write it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("headers") / "a.update.safetensors"


def said(path, header) -> RecordedUpdate:
    """Read a file with this header, a mapping or text."""
    tensors = {"w0/a": torch.ones(2), "update/a": torch.ones(2)}
    save_file(tensors, path, {HEADER: header if isinstance(header, str) else json.dumps(header)})
    return read_update(path)


def test_a_header_by_other_hands(place):
    read = said(place, SAID)
    assert read.update.training == LocalTraining(epochs=2, batch_size=2, lr=0.01)
    assert read.normalisation == Normalisation((0.5, 0.5, 0.0), (0.25, 0.25, 1.0))
    assert read.labels.tolist() == SAID["labels"]
    assert (read.shape, read.classes, read.update.n, read.round, read.client) == ((3, 12, 12), 5, 4, 7, "a")
    assert (read.loss, read.producer) == ("cross_entropy", "unknown")


def test_the_number_of_a_client_is_its_name(place):
    assert said(place, {**SAID, "client": 3}).client == "3"


def test_soft_labels(place):
    rows = [[0, 0, 1, 0, 0], [0.5, 0.5, 0, 0, 0]] * 2
    assert torch.equal(said(place, {**SAID, "labels": rows}).labels, torch.tensor(rows))


def test_notes_that_no_defense_may_leave_are_not_read(place):
    notes = {"dpsgd": {"accounted_epsilon": 1.0}, "preflight": 3, "label_error": "0"}
    assert said(place, {**SAID, "notes": notes}).update.notes == {"dpsgd": notes["dpsgd"]}


WRONG = [
    ({"format": 2}, "format: Input should be 1", "record format: 1"),
    ({"model": None}, "model: Input should be a valid string", "registered name"),
    ({"shape": [12, 12]}, "shape: List should have at least 3 items", "[channels, height, width]"),
    ({"shape": [3, 12.0, 12]}, "shape: Input should be a valid integer, not 12.0", "e.g. [3, 32, 32]"),
    ({"classes": 1}, "classes: Input should be greater than or equal to 2", "number of logits"),
    ({"n": "4"}, "n: Input should be a valid integer, not '4'", "number of private images"),
    ({"n": True}, "n: Input should be a valid integer, not True", "number of private images"),
    ({"n": 10**400}, "n: Input should be less than or equal to", "number of private images"),
    ({"training": []}, "training: Input should be", "epochs, batch_size, lr, mode"),
    ({"training": {"epochs": "20"}}, "training.epochs: Input should be a valid integer, not '20'", "a whole number"),
    ({"training": {"epochs": 1.5}}, "training.epochs: Input should be a valid integer, not 1.5", "a whole number"),
    ({"training": {"batch_size": 0}}, "training.batch_size: Input should be greater", "a whole number"),
    ({"training": {"lr": float("nan")}}, "training.lr: Input should be a finite number", "a number above 0"),
    ({"training": {"lr": 1e300}}, "training.lr: Input should be less than or equal to", "a number above 0"),
    ({"training": {"lr": 0}}, "training.lr: Input should be greater than 0", "a number above 0"),
    ({"training": {"mode": "banana"}}, "training.mode: Input should be 'eval' or 'train', not 'banana'", "eval"),
    ({"training": {"optimizer": "lion"}}, "training.optimizer: Input should be 'sgd' or 'adam'", "sgd or adam"),
    ({"training": {"momentum": 1}}, "training.momentum: Input should be less than 1", "e.g. 0.9"),
    ({"training": {"weight_decay": -1}}, "training.weight_decay: Input should be greater", "0 for none"),
    ({"training": {"epoch": 3}}, "unknown training setting 'epoch'", "did you mean 'epochs'?"),
    ({"normalisation": {"mean": [0, 0, 0]}}, "normalisation.std: Field required", "for each channel"),
    ({"normalisation": {"mean": [0, 0], "std": [1, 1]}}, "2 mean and 2 std for 3 channels", "for each channel"),
    ({"normalisation": {"mean": [0], "std": [1] * 3}}, "1 mean and 3 std for 3 channels", "for each channel"),
    ({"normalisation": {"mean": [0] * 3, "std": [1, 0, 1]}}, "normalisation.std: Input should be greater", "positive"),
    ({"labels": [0, 1]}, "2 labels for n = 4 images", "same client"),
    ({"labels": [0, 1, 2, 5]}, "they go from 0 to 5 with 5 classes", "count classes from 0"),
    ({"labels": [0, 1, -2, 2]}, "they go from -2 to 2 with 5 classes", "count classes from 0"),
    ({"labels": [0, 1, 6]}, "3 labels for n = 4 images; they go from 0 to 6", "same client"),
    ({"labels": [[1.0] * 5, [1.0] * 5, [1.0] * 5, [1.0]]}, "neither a class nor a number per class", "n images"),
    ({"labels": [[1.0] * 4] * 4}, "neither a class nor a number per class", "n images"),
    ({"labels": [[]] * 4}, "neither a class nor a number per class", "n images"),
    ({"labels": [0, 1, 2, [1.0] * 5]}, "neither a class nor a number per class", "n images"),
    ({"labels": [0, "1", 2, 3.0]}, "labels: Input should be a valid integer, not '1'", "n images"),
    ({"defense": None}, "defense: Input should be a valid string", "none for none"),
    ({"round": "7a"}, "round: Input should be a valid integer, not '7a'", "from 0"),
    ({"round": -1}, "round: Input should be greater than or equal to 0", "from 0"),
    ({"client": ["a"]}, "client: Input should be a valid string", "as text"),
    ({"notes": []}, "notes: Input should be a valid dictionary", "{} for none"),
]


@pytest.mark.parametrize(("change", "found", "fix"), WRONG)
def test_what_a_header_cannot_say(change, found, fix, place):
    with pytest.raises(InputError) as refused:
        said(place, {**SAID, **change})
    (problem,) = refused.value.problems
    assert problem.found.startswith(place.name)
    assert found in problem.found
    assert fix in problem.fix


def test_all_that_is_wrong_with_a_header_is_said_at_once(place):
    wrong = {
        "training": {"epochs": "20", "mode": "banana", "epoch": 3},
        "labels": [0],
        "round": "7a",
        "normalisation": {"mean": [0], "std": [1]},
        "notes": [],
    }
    with pytest.raises(InputError) as refused:
        said(place, {name: value for name, value in {**SAID, **wrong}.items() if name != "model"})
    assert len(refused.value.problems) == 8


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, "sgd", "7", -1]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [(name,) for name in SAID] + [(part, name) for part in ("training", "normalisation") for name in SAID[part]]


@given(st.lists(st.tuples(st.sampled_from(FIELDS), st.just("absent") | JSON), max_size=3))
def test_a_damaged_header_is_refused_or_makes_sense(place, damage):
    header = json.loads(json.dumps(SAID))
    for path, value in damage:
        parent = header.get(path[0]) if len(path) == 2 else header
        if isinstance(parent, dict):
            parent.pop(path[-1], None) if value == "absent" else parent.update({path[-1]: value})
    accepted_makes_sense(place, header)


@given(
    st.integers(0, len(json.dumps(SAID))),
    st.integers(0, 20),
    st.text(max_size=3) | st.sampled_from(["[" * 10**5, "9" * 5000]),
)
def test_a_torn_header_is_refused_or_makes_sense(place, start, length, put):
    text = json.dumps(SAID)
    accepted_makes_sense(place, text[:start] + put + text[start + length :])


def accepted_makes_sense(path, header) -> None:
    """Nothing but an InputError; what is read is of the right types, fits together and can be written again."""
    try:
        read = said(path, header)
    except InputError:
        return
    training = read.update.training
    assert training.mode in ("eval", "train")
    assert training.steps(read.update.n) >= 1
    assert read.client is None or isinstance(read.client, str)
    assert read.round is None or read.round >= 0
    assert read.labels is None or read.labels.shape in ((read.update.n,), (read.update.n, read.classes))
    if read.normalisation is not None:
        assert bool(read.normalisation.apply(torch.ones(1, *read.shape[:1], 1, 1)).isfinite().all())
    write_update(path, read)
    again = read_update(path)
    assert (again.update.training, again.model, again.shape, again.round) == (
        training,
        read.model,
        read.shape,
        read.round,
    )


def test_truth_is_a_file_apart(tmp_path):
    client = tiny_client()
    path = tmp_path / "a.truth.safetensors"
    images, labels = client.batch.images, client.batch.labels
    write_truth(path, images=images, labels=labels, candidates=images[:2], dataset="tiny")
    read = read_truth(path)
    assert torch.equal(read[0], images)
    assert read[3] == "tiny"


def test_truth_of_other_types_is_read_as_ours(tmp_path):
    path = tmp_path / "a.truth.safetensors"
    images = torch.rand(3, 1, 4, 4, dtype=torch.float64)
    write_truth(path, images=images, labels=torch.arange(3).int(), candidates=images.half(), dataset="tiny")
    read = read_truth(path)
    assert [value.dtype for value in read[:3]] == [torch.float32, torch.int64, torch.float32]
    assert torch.equal(read[0], images.float())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": torch.zeros(3, 1, 4, 4, dtype=torch.uint8)}, ["images are torch.uint8"]),
        ({"images": torch.full((3, 1, 4, 4), 255.0)}, ["images have values outside"]),
        ({"images": torch.full((3, 1, 4, 4), float("nan"))}, ["images have values outside"]),
        ({"images": torch.zeros(3, 16)}, ["images are (3, 16)", "candidates is (1, 4, 4), images (16,)"]),
        ({"images": torch.tensor(0.5)}, ["images are ()", "candidates is", "labels are (3,)"]),
        ({"images": torch.zeros(2, 1, 4, 4)}, ["labels are (3,) torch.int64 for images (2, 1, 4, 4)"]),
        ({"candidates": torch.zeros(2, 3, 4, 4)}, ["candidates is (3, 4, 4), images (1, 4, 4)"]),
        ({"candidates": torch.full((2, 1, 4, 4), -1.0)}, ["candidates have values outside"]),
        ({"labels": torch.zeros(3)}, ["labels are (3,) torch.float32"]),
        ({"labels": torch.zeros(3, 2, dtype=torch.int64)}, ["labels are (3, 2) torch.int64"]),
        ({"labels": torch.tensor(1)}, ["labels are ()"]),
    ],
)
def test_truth_that_nothing_can_be_scored_against(change, words, tmp_path):
    path = tmp_path / "a.truth.safetensors"
    good = {"images": torch.rand(3, 1, 4, 4), "labels": torch.arange(3), "candidates": torch.rand(2, 1, 4, 4)}
    write_truth(path, **{**good, **change}, dataset="tiny")
    with pytest.raises(InputError) as refused:
        read_truth(path)
    problems = refused.value.problems
    assert [word in problem.found for word, problem in zip(words, problems, strict=True)] == [True] * len(words)
    assert all(problem.fix for problem in problems)


def test_a_pickle_in_any_tensor_is_recognised(tmp_path):
    hidden = {
        "a": torch.tensor(list(b"PK\x03\x04rest"), dtype=torch.uint8).view(torch.int8),
        "b": torch.tensor(list(pickle.dumps(1)[:4]), dtype=torch.uint8).view(torch.float32),
        "c": torch.tensor([-1, 2], dtype=torch.int8),
    }
    path = tmp_path / "a.update.safetensors"
    save_file({"w0/a": torch.ones(2), "update/a": torch.ones(2), **hidden}, path, {HEADER: json.dumps(SAID)})
    with pytest.raises(InputError) as refused:
        read_update(path)
    assert ["pickle" in problem.found for problem in refused.value.problems] == [True, True, False]


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
