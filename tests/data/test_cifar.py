"""CIFAR's official pickles, and pickles that only pretend to be."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.data import load
from leakscope.data.cifar import unpickle
from leakscope.errors import InputError

FINE = [b"apple", b"aquarium_fish", *(b"thing_%d" % i for i in range(98))]


def write_batch(path: Path, n: int, *, key: bytes = b"fine_labels", protocol: int = 2, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, 3072), dtype=np.uint8)
    labels = rng.integers(0, 10, n).tolist()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps({b"data": rows, key: labels, b"filenames": [b"x.png"] * n}, protocol=protocol))
    return rows, labels


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_cifar100(tmp_path: Path, protocol: int) -> None:
    folder = tmp_path / "cifar-100-python"
    rows, labels = write_batch(folder / "train", 5, protocol=protocol)
    write_batch(folder / "test", 2, seed=1)
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": FINE}, protocol=2))
    dataset = load("cifar100", root=tmp_path)
    assert dataset.labels[:5].tolist() == labels
    assert dataset.splits is not None
    assert dataset.splits.tolist() == [0] * 5 + [1] * 2
    assert dataset.label_names[:2] == ("apple", "aquarium_fish")
    # a row holds 1024 red, then 1024 green, then 1024 blue values, each plane row by row
    assert dataset.images[3, 2, 7].tolist() == [rows[3, plane * 1024 + 2 * 32 + 7] for plane in range(3)]
    assert dataset.source == str(folder / "train")


def test_python_2_pickles_name_an_older_numpy(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    rows, _ = write_batch(folder / "train", 3)
    content = (folder / "train").read_bytes()
    assert b"numpy._core.multiarray" in content
    (folder / "train").write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert load("cifar100", root=tmp_path).images.sum() == rows.sum()


def test_the_official_form_comes_before_the_npz(tmp_path: Path) -> None:
    write_batch(tmp_path / "cifar-100-python" / "train", 5)
    np.savez(tmp_path / "cifar100.npz", images=np.zeros((9, 32, 32, 3), np.uint8), labels=np.zeros(9, int))
    assert len(load("cifar100", root=tmp_path)) == 5


def test_cifar10(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    first = write_batch(folder / "data_batch_1", 3, key=b"labels")[1]
    second = write_batch(folder / "data_batch_2", 2, key=b"labels", seed=1)[1]
    write_batch(folder / "test_batch", 1, key=b"labels", seed=2)
    dataset = load("cifar10_public", root=tmp_path)
    assert dataset.labels[:5].tolist() == first + second
    assert dataset.classes == 10
    assert len(dataset) == 6


class Calls:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def hostile(marker: Path) -> dict[str, bytes]:
    touch = f"touch {marker}"
    return {
        "shell": pickle.dumps({b"data": Calls(os.system, touch)}),
        "eval": pickle.dumps(Calls(eval, f"open({str(marker)!r}, 'w')")),
        "import": pickle.dumps(Calls(__import__, "antigravity")),
        "getattr": b"cbuiltins\ngetattr\n(cnumpy\nndarray\nVtofile\ntR.",
        "submodule": b"cnumpy.testing\nassert_equal\n.",
        "dotted": b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.",
        "codec": b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",
        "instance": b"(S'" + touch.encode() + b"'\nios\nsystem\n.",
        "persistent": b"Psomething\n.",
        "extension": b"\x82\x01.",
    }


@pytest.mark.parametrize("kind", sorted(hostile(Path())))
def test_hostile_pickles_are_refused_and_do_nothing(tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "sprung"
    path = tmp_path / "cifar-100-python" / "train"
    path.parent.mkdir()
    path.write_bytes(hostile(marker)[kind])
    with pytest.raises(InputError, match="could do anything"):
        load("cifar100", root=tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x02}q", b"not a pickle", pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)})[:-40]],
)
def test_damaged_pickles(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        unpickle(path)


@pytest.mark.parametrize(
    "content",
    [
        {b"data": np.zeros((2, 3072), np.uint8)},
        {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1]},
        {b"data": np.zeros((2, 3072), np.float32), b"fine_labels": [1, 2]},
        {b"data": np.zeros((2, 99), np.uint8), b"fine_labels": [1, 2]},
        {b"data": [1, 2], b"fine_labels": [1, 2]},
    ],
)
def test_pickles_that_are_no_batch(tmp_path: Path, content: dict[bytes, Any]) -> None:
    path = tmp_path / "cifar-100-python" / "train"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(InputError, match="not a CIFAR batch"):
        load("cifar100", root=tmp_path)


def test_a_list_is_no_batch_either(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(pickle.dumps([1]))
    with pytest.raises(InputError, match="holds a list"):
        unpickle(tmp_path / "train")
