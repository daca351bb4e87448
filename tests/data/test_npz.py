"""The npz form: what is right is read back exactly, what is wrong is said, and nothing is ever unpickled."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.data import load
from leakscope.data.npz import read_arrays
from leakscope.errors import InputError


def cifar_like(n: int = 4, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    images = rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    return {"images": images, "labels": rng.integers(0, 100, n), **changes}


def save(folder: Path, name: str, arrays: dict[str, Any]) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def attempt(root: Path) -> str:
    """What loading CIFAR-100 says: of the data set or of what is wrong with it."""
    try:
        return repr(load("cifar100", root=root))
    except InputError as error:
        return str(error)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 5),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    dtype=st.sampled_from(["uint8", "int16", "int32", "int64", "uint64"]),
    column=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_is_saved_is_what_is_loaded(n: int, height: int, width: int, dtype: str, column: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, height, width), dtype=np.uint8)
    labels = rng.integers(0, 62, n).astype(dtype)
    writers = rng.integers(0, 3, n)
    split = rng.integers(0, 2, n).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        shaped = labels[:, np.newaxis] if column else labels
        save(Path(folder), "femnist", {"images": images, "labels": shaped, "writer": writers, "split": split})
        dataset = load("femnist", root=Path(folder))
    assert dataset.shape == (1, height, width)
    assert dataset.labels.dtype == np.int64
    np.testing.assert_array_equal(dataset.images[..., 0], images)
    np.testing.assert_array_equal(dataset.labels, labels)
    np.testing.assert_array_equal(dataset.writers, writers)
    np.testing.assert_array_equal(dataset.splits, split)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **cifar_like(2, label_names=np.array([str(i) for i in range(100)])))
    content = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cifar100.npz").write_bytes(content)
        outcome = attempt(Path(folder))
    assert "cifar100.npz" in outcome


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": None}, "no array 'images'"),
        ({"labels": None}, "no array 'labels'"),
        ({"images": np.zeros((4, 32, 32, 3), np.float32)}, "np.rint(images * 255)"),
        ({"images": np.zeros((4, 3, 32, 32), np.uint8)}, "transpose(0, 2, 3, 1)"),
        ({"images": np.zeros((4, 32, 32), np.uint8)}, "3 channel(s)"),
        ({"images": np.zeros((0, 32, 32, 3), np.uint8), "labels": np.zeros(0, int)}, "shape (0, 32, 32, 3)"),
        ({"images": np.uint8(3)}, "shape ()"),
        ({"labels": np.zeros(3, int)}, "shape (3,) for 4 images"),
        ({"labels": np.zeros(4)}, "labels are float64"),
        ({"labels": np.array([0, 1, 2, 100])}, "labels go from 0 to 100"),
        ({"labels": np.array([0, 1, 2, -1])}, "labels go from -1 to 2"),
        ({"split": np.array([0, 1, 2, 0])}, "split is int64"),
        ({"writer": np.zeros((4, 2), int)}, "writer is int64 of shape (4, 2)"),
        ({"label_names": np.array(["one", "two"])}, "2 names for 100 classes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    save(tmp_path, "cifar100", cifar_like(**changes))
    with pytest.raises(InputError) as caught:
        load("cifar100", root=tmp_path)
    assert said in str(caught.value)
    assert "cifar100.npz" in str(caught.value)


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    wrong = cifar_like(images=np.zeros((4, 3, 32, 32)), labels=np.array([1.5] * 3), split=np.array([7] * 4))
    save(tmp_path, "cifar100", wrong)
    with pytest.raises(InputError) as caught:
        load("cifar100", root=tmp_path)
    assert len(caught.value.problems) == 5


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    trap = np.empty(4, dtype=object)
    trap[:] = [Trap()] * 4
    save(tmp_path, "cifar100", cifar_like(labels=trap))
    with pytest.raises(InputError, match="could run any code"):
        load("cifar100", root=tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_other_files_named_npz(tmp_path: Path) -> None:
    path = tmp_path / "cifar100.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="one bare array"):
        load("cifar100", root=tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read"):
        load("cifar100", root=tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load("cifar100", root=tmp_path)


def test_femnist_needs_writers(tmp_path: Path) -> None:
    save(tmp_path, "femnist", {"images": np.zeros((2, 28, 28), np.uint8), "labels": np.array([0, 61])})
    with pytest.raises(InputError, match="no array `writer`"):
        load("femnist", root=tmp_path)


def test_writer_names_belong_to_values_never_to_places(tmp_path: Path) -> None:
    base = {"images": np.zeros((3, 28, 28), np.uint8), "labels": np.zeros(3, int)}
    save(tmp_path, "femnist", base | {"writer": np.array([2, 0, 2]), "writer_names": np.array(["a", "b", "c"])})
    assert load("femnist", root=tmp_path).writer_names == ("a", "b", "c")
    save(tmp_path, "femnist", base | {"writer": np.array([70, 90, 70]), "writer_names": np.array(["a", "b"])})
    assert load("femnist", root=tmp_path).writer_names == ()
    save(tmp_path, "femnist", base | {"writer_names": np.array(["a", "b", "a"])})
    writers = load("femnist", root=tmp_path).writers
    assert writers is not None
    assert writers.tolist() == ["a", "b", "a"]
    save(tmp_path, "femnist", base | {"writer": np.array([b"x", b"y", b"x"])})
    writers = load("femnist", root=tmp_path).writers
    assert writers is not None
    assert writers.tolist() == ["x", "y", "x"]


def test_read_arrays_lists_every_missing_array(tmp_path: Path) -> None:
    path = save(tmp_path, "some", {"other": np.zeros(1)})
    with pytest.raises(InputError) as caught:
        read_arrays(path, needed=("a", "b"))
    assert len(caught.value.problems) == 2
    assert "it has: other" in str(caught.value)


def test_the_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    save(tmp_path, "cifar100", cifar_like())
    first = load("cifar100", root=tmp_path)
    again = load("cifar100", root=tmp_path)
    images = cifar_like()["images"]
    images[0, 0, 0, 0] ^= 1
    save(tmp_path, "cifar100", cifar_like(images=images))
    other = load("cifar100", root=tmp_path)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(first.fingerprint) == 16
    assert "4 images of 3x32x32, 100 classes" in repr(first)
