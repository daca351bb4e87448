"""FEMNIST in LEAF's, TensorFlow Federated's and Hugging Face's form, each made small on the fly."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from emnist_archive import example, field, varint, write_sqlite
from leakscope.data import Dataset, draw_client, load
from leakscope.data.femnist import CHARACTERS, some_writers
from leakscope.data.protobuf import parse_example
from leakscope.errors import InputError


def values(array: Any) -> list[Any]:
    assert array is not None
    return list(array.tolist())


def write_leaf(path: Path, users: dict[str, tuple[Any, list[int]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {name: {"x": np.asarray(rows).tolist(), "y": labels} for name, (rows, labels) in users.items()}
    counts = [len(labels) for _, labels in users.values()]
    path.write_text(json.dumps({"users": list(users), "num_samples": counts, "user_data": data}))


@pytest.mark.parametrize("home", ["femnist/data", "leaf/data/femnist/data"])
def test_leaf(tmp_path: Path, home: str) -> None:
    levels = np.linspace(0, 1, 784)
    write_leaf(
        tmp_path / home / "train" / "all_data_0_niid_train_9.json", {"f0001_41": ([levels, 1 - levels], [3, 61])}
    )
    write_leaf(tmp_path / home / "train" / "all_data_1_niid_train_9.json", {"f0002_13": ([levels], [10])})
    write_leaf(tmp_path / home / "test" / "all_data_0_niid_test_9.json", {"f0001_41": ([levels], [36])})
    dataset = load("femnist", root=tmp_path)
    assert values(dataset.writers) == ["f0001_41", "f0001_41", "f0002_13", "f0001_41"]
    assert values(dataset.splits) == [0, 0, 0, 1]
    assert values(dataset.labels) == [3, 61, 10, 36]
    np.testing.assert_array_equal(dataset.images[0].ravel(), np.rint(levels * 255))
    assert [dataset.label_names[label] for label in (3, 10, 36, 61)] == ["3", "A", "a", "z"]
    assert draw_client(dataset, n=2, seed=0).writer == "f0001_41"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"user_data": {"w": {"x": [[0.5]], "y": [1]}}}',
        '{"user_data": {"w": {"x": [], "y": [1]}}}',
        '{"user_data": {"w": {"y": [1]}}}',
        json.dumps({"user_data": {"w": {"x": [[2.0] * 784], "y": [1]}}}),
        json.dumps({"user_data": {"w": {"x": [["a"] * 784], "y": [1]}}}),
    ],
)
def test_json_that_is_not_leaf(tmp_path: Path, content: str) -> None:
    path = tmp_path / "femnist" / "data" / "train" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(InputError, match="not LEAF's FEMNIST"):
        load("femnist", root=tmp_path)


def test_tensorflow_federated_sqlite(tmp_path: Path) -> None:
    write_sqlite(tmp_path / "emnist_all.sqlite", 40)
    dataset = load("femnist", root=tmp_path)
    names = sorted(set(values(dataset.writers)))
    assert len(names) == 2  # 5 % of 40
    writer = int(names[0][1:5])
    assert values(dataset.labels)[:4] == [writer, writer + 1, writer + 2, writer]
    assert values(dataset.splits)[:4] == [0, 0, 0, 1]
    assert values(dataset.images[:3, 0, 0, 0]) == [0, 26, 51]


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "emnist_all.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(InputError, match="not TensorFlow Federated's EMNIST"):
        load("femnist", root=tmp_path)
    path.unlink()
    write_sqlite(path, 1, train=0)
    database = sqlite3.connect(path)
    database.execute("UPDATE examples SET serialized_example_proto = ?", (example([1.0] * 3, 1),))
    database.commit()
    database.close()
    with pytest.raises(InputError, match="784 `pixels`"):
        load("femnist", root=tmp_path)


def test_examples_are_read_packed_and_unpacked() -> None:
    assert values(parse_example(example([0.5, 0.25], 300))["pixels"]) == [0.5, 0.25]
    assert values(parse_example(example([], 300))["label"]) == [300]
    single = varint(1 << 3 | 5) + struct.pack("<f", 0.5)
    lone = varint(1 << 3) + varint(7)
    for feature, wanted in ((field(2, single * 2), [0.5, 0.5]), (field(3, lone), [7])):
        message = field(1, field(1, field(1, b"x") + field(2, feature)))
        assert values(parse_example(message)["x"]) == wanted


@pytest.mark.parametrize("cut", [1, 5, 50, 3000])
def test_cut_examples_are_refused(cut: int) -> None:
    with pytest.raises(ValueError):
        parse_example(example([0.5] * 784, 1)[:-cut])


@pytest.mark.parametrize("message", [b"\xff" * 11, b"\x0b", b"\x08\x01", b"\x0a\x02\x0a\x00"])
def test_other_bytes_are_no_example(message: bytes) -> None:
    with pytest.raises(ValueError):
        parse_example(message)


def test_always_the_same_five_per_cent() -> None:
    names = [f"f{i:04d}_00" for i in range(200)]
    assert some_writers(names) == some_writers(reversed(names))
    assert len(some_writers(names)) == 10
    assert some_writers(["only"]) == ["only"]


def write_parquet(path: Path) -> Dataset:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = []
    for i in range(6):
        buffer = io.BytesIO()
        Image.new("L", (28, 28), 40 * i).save(buffer, "PNG")
        rows.append(
            {
                "image": {"bytes": buffer.getvalue(), "path": None},
                "writer_id": f"f{i % 2}",
                "hsf_id": 0,
                "character": 10 + i,
            }
        )
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return load("femnist", root=path.parents[2])


def test_hugging_face_parquet(tmp_path: Path) -> None:
    dataset = write_parquet(tmp_path / "femnist" / "data" / "train-00000-of-00001.parquet")
    writers = set(values(dataset.writers))
    assert len(writers) == 1
    start = int(writers.pop()[1])
    assert values(dataset.labels) == [10 + start, 12 + start, 14 + start]
    assert values(dataset.images[:, 0, 0, 0]) == [40 * (start + i) for i in (0, 2, 4)]
    assert dataset.label_names == CHARACTERS


def test_parquet_without_a_reader_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    path = tmp_path / "femnist" / "data" / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(InputError, match="pip install pyarrow"):
        load("femnist", root=tmp_path)
