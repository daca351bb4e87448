"""OrganAMNIST: MedMNIST's npz, our npz, and the upsampled edition that only comes by its own name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.data import load, where
from leakscope.errors import InputError


def write_official(path: Path, side: int) -> dict[str, Any]:
    rng = np.random.default_rng(side)
    arrays: dict[str, Any] = {}
    for split, n in (("train", 5), ("val", 2), ("test", 3)):
        arrays[f"{split}_images"] = rng.integers(0, 256, (n, side, side), dtype=np.uint8)
        arrays[f"{split}_labels"] = rng.integers(0, 11, (n, 1)).astype(np.uint8)
    np.savez(path, **arrays)
    return arrays


@pytest.mark.parametrize(
    ("name", "file", "side"), [("organamnist28", "organamnist", 28), ("organamnist64", "organamnist_64", 64)]
)
def test_official_form(tmp_path: Path, name: str, file: str, side: int) -> None:
    arrays = write_official(tmp_path / f"{file}.npz", side)
    dataset = load(name, root=tmp_path)
    assert dataset.shape == (1, side, side)
    assert dataset.splits is not None
    assert dataset.splits.tolist() == [0] * 5 + [1] * 3
    np.testing.assert_array_equal(dataset.labels[:5], arrays["train_labels"][:, 0])
    assert dataset.label_names[6] == "liver"


def test_a_smaller_edition_never_stands_in_silently(tmp_path: Path) -> None:
    write_official(tmp_path / "organamnist.npz", 28)
    with pytest.raises(InputError, match="organamnist28 or organamnist28@64"):
        load("organamnist64", root=tmp_path)
    large = load("organamnist28@64", root=tmp_path)
    small = load("organamnist28", root=tmp_path)
    assert large.name == "organamnist28@64"
    assert large.shape == (1, 64, 64)
    np.testing.assert_array_equal(large.labels, small.labels)
    # bilinear: means survive, the range never grows
    gap = large.images.mean(axis=(1, 2, 3)) - small.images.mean(axis=(1, 2, 3))
    assert np.abs(gap).max() < 3
    assert (large.images.max(axis=(1, 2, 3)) <= small.images.max(axis=(1, 2, 3))).all()


def test_the_short_name_takes_the_larger_edition_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load("organamnist", root=tmp_path)
    assert "organamnist_64.npz" in str(caught.value)
    assert "organamnist28.npz" in str(caught.value)
    write_official(tmp_path / "organamnist.npz", 28)
    assert load("organamnist", root=tmp_path).name == "organamnist28"
    write_official(tmp_path / "organamnist_64.npz", 64)
    assert load("organamnist", root=tmp_path).name == "organamnist64"
    assert where("organamnist", root=tmp_path) == tmp_path / "organamnist_64.npz"


def test_a_file_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    write_official(tmp_path / "organamnist_64.npz", 28)
    with pytest.raises(InputError, match="28x28, not the 64x64"):
        load("organamnist64", root=tmp_path)


def test_upsampling_leaves_wrong_images_to_the_checks(tmp_path: Path) -> None:
    np.savez(tmp_path / "organamnist28.npz", images=np.zeros((2, 28, 28)), labels=np.zeros(2, int))
    with pytest.raises(InputError, match="images are float64"):
        load("organamnist28@64", root=tmp_path)
