"""The official Tiny-ImageNet folder, made small."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from leakscope.data import load
from leakscope.data.tiny_imagenet import PER_CLASS
from leakscope.errors import InputError

WNIDS = [f"n{i:08d}" for i in range(200)]


def write(root: Path, *, images: int = 1, side: int = 64) -> Path:
    folder = root / "tiny-imagenet-200"
    for place, wnid in enumerate(WNIDS):
        home = folder / "train" / wnid / "images"
        home.mkdir(parents=True)
        for i in range(images if place == 7 else 1):
            Image.new("RGB" if i % 2 else "L", (side, side), place if i % 2 == 0 else (place,) * 3).save(
                home / f"{wnid}_{i}.JPEG"
            )
    (folder / "wnids.txt").write_text("\n".join(reversed(WNIDS)) + "\n")
    (folder / "words.txt").write_text(f"{WNIDS[0]}\tgoldfish, Carassius auratus\nn99999999\tother\n")
    return folder


def test_labels_are_places_among_the_sorted_wnids(tmp_path: Path) -> None:
    write(tmp_path, images=PER_CLASS + 3)
    dataset = load("tiny_imagenet", root=tmp_path)
    assert dataset.shape == (3, 64, 64)
    assert (dataset.labels == 7).sum() == PER_CLASS
    assert sorted(set(dataset.labels.tolist())) == list(range(200))
    assert dataset.label_names[:2] == ("goldfish", WNIDS[1])
    # each class was painted in the grey of its place; JPEG may be off by a little
    for place in (0, 50, 199):
        assert abs(int(dataset.images[dataset.labels == place][0, 32, 32, 1]) - place) <= 2


def test_every_broken_file_is_listed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    broken = [folder / "train" / wnid / "images" / f"{wnid}_0.JPEG" for wnid in WNIDS[3:5]]
    for path in broken:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError) as caught:
        load("tiny_imagenet", root=tmp_path)
    assert [str(path) in str(caught.value) for path in broken] == [True, True]
    assert len(caught.value.problems) == 2


def test_missing_classes_and_other_sizes(tmp_path: Path) -> None:
    folder = write(tmp_path, side=32)
    with pytest.raises(InputError, match="32x32, not 64x64"):
        load("tiny_imagenet", root=tmp_path)
    (folder / "train" / WNIDS[0] / "images" / f"{WNIDS[0]}_0.JPEG").unlink()
    with pytest.raises(InputError, match="holds no JPEG image"):
        load("tiny_imagenet", root=tmp_path)
