"""A person's own images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leakscope.data import Dataset, draw_client, load
from leakscope.errors import InputError


def put(path: Path, size: tuple[int, int] = (40, 30), mode: str = "RGB", colour: object = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)  # type: ignore[arg-type]


def read(folder: Path) -> Dataset:
    return load(f"folder:{folder}")


def test_sub_folders_are_classes(tmp_path: Path) -> None:
    put(tmp_path / "dog" / "a.png")
    put(tmp_path / "cat" / "b.jpg", (100, 20))
    put(tmp_path / "cat" / "c.GIF", (64, 64))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "cat" / ".DS_Store").write_text("")
    dataset = read(tmp_path)
    assert dataset.name == f"folder:{tmp_path}"
    assert dataset.label_names == ("cat", "dog")
    assert dataset.labels.tolist() == [0, 0, 1]
    assert dataset.classes == 2
    assert dataset.shape == (3, 32, 32)
    assert len(draw_client(dataset, n=3, seed=0)) == 3


@pytest.mark.parametrize(
    ("size", "shape"),
    [((64, 48), (48, 64)), ((128, 128), (128, 128)), ((129, 129), (32, 32)), ((16, 16), (16, 16)), ((8, 8), (32, 32))],
)
def test_one_small_common_size_is_kept(tmp_path: Path, size: tuple[int, int], shape: tuple[int, int]) -> None:
    put(tmp_path / "a" / "1.png", size)
    put(tmp_path / "b" / "2.png", size)
    assert read(tmp_path).shape[1:] == shape


def test_the_centre_is_kept(tmp_path: Path) -> None:
    wide = Image.new("RGB", (400, 100), "red")
    wide.paste(Image.new("RGB", (100, 100), "blue"), (150, 0))
    (tmp_path / "a").mkdir()
    wide.save(tmp_path / "a" / "1.png")
    put(tmp_path / "b" / "2.png")
    assert (read(tmp_path).images[0] == (0, 0, 255)).all()


def test_grey_stays_grey_and_16_bits_become_8(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", (20, 20), "L", 7)
    (tmp_path / "b").mkdir()
    Image.fromarray(np.full((20, 20), 200 * 257, np.uint16)).save(tmp_path / "b" / "2.png")
    dataset = read(tmp_path)
    assert dataset.shape == (1, 20, 20)
    assert dataset.images[:, 0, 0, 0].tolist() == [7, 200]
    put(tmp_path / "b" / "3.png", (20, 20), "RGB", (1, 2, 3))
    mixed = read(tmp_path)
    assert mixed.images[:, 0, 0].tolist() == [[7, 7, 7], [200, 200, 200], [1, 2, 3]]
    assert len(mixed.normalisation.mean) == 3


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", (20, 20), "RGBA", (255, 0, 0, 0))
    put(tmp_path / "b" / "2.png", (20, 20), "P", 0)
    assert (read(tmp_path).images[0] == 255).all()


def test_photographs_stand_upright(tmp_path: Path) -> None:
    sideways = Image.new("RGB", (48, 64), "black")
    sideways.paste(Image.new("RGB", (48, 32), "white"), (0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    (tmp_path / "a").mkdir()
    sideways.save(tmp_path / "a" / "1.png", exif=exif)
    put(tmp_path / "b" / "2.png", (64, 48))
    dataset = read(tmp_path)
    assert dataset.shape == (3, 48, 64)
    assert dataset.images[0, 0, 63].tolist() == [255, 255, 255]
    assert dataset.images[0, 0, 0].tolist() == [0, 0, 0]


def test_every_broken_image_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "a" / "fine.png")
    put(tmp_path / "b" / "cut.png", (300, 300))
    cut = tmp_path / "b" / "cut.png"
    (tmp_path / "a" / "text.jpg").write_text("no image")
    (tmp_path / "b" / "empty.bmp").touch()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert {Path(problem.found.split(" cannot")[0]).name for problem in caught.value.problems} == {
        "text.jpg",
        "empty.bmp",
    }
    (tmp_path / "a" / "text.jpg").unlink()
    (tmp_path / "b" / "empty.bmp").unlink()
    cut.write_bytes(cut.read_bytes()[:60])
    with pytest.raises(InputError, match=r"cut\.png cannot be read"):
        read(tmp_path)


def test_folders_that_are_no_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        read(tmp_path / "nowhere")
    put(tmp_path / "loose.png")
    with pytest.raises(InputError, match=r"0 sub-folder.* and 1 loose images"):
        read(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert len(caught.value.problems) == 2


def test_floating_point_images_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.tif", (20, 20), "F", 0.5)
    put(tmp_path / "b" / "2.png", (20, 20))
    with pytest.raises(InputError, match="floating-point"):
        read(tmp_path)
