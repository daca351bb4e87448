"""`folder:PATH`: a person's own images, one sub-folder per class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from leakscope.data.dataset import Samples
from leakscope.data.pixels import Pixels, each_file, eight_bit, is_grey, square, to_array
from leakscope.errors import Problem, refusal, refuse

SIDE = 32
KEPT_SIDES = range(16, 129)
"""Images that all share one size within these sides are taken as they are."""


def read_folder(folder: Path) -> Samples:
    """Every readable image of PATH/<class>/, as (n, H, W, C).

    Images that share one size with both sides in 16 .. 128 keep it; others give their centred square, scaled
    to 32x32. C is 1 where every image is grey, else 3. Classes are the sub-folders, sorted by name.
    """
    classes = _classes(folder)
    files = [path for paths in classes.values() for path in paths]
    headers = each_file(files, _header)
    grey = all(colourless for _, colourless in headers)
    keep = _shared_size([size for size, _ in headers])
    images = each_file(files, lambda path: _pixels(path, grey=grey, keep=keep))
    labels = np.repeat(np.arange(len(classes)), [len(paths) for paths in classes.values()])
    return Samples(np.stack(images), labels, label_names=tuple(classes))


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Class name -> its image files, sorted."""
    if not folder.is_dir():
        raise refusal(f"there is no folder {folder}", fix="folder:PATH names a folder with images")
    names = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    classes = {path.name: _images_in(path) for path in names}
    if len(classes) < 2:
        loose = len(_images_in(folder))
        found = f"{folder} has {len(classes)} sub-folder(s)" + (f" and {loose} loose images" if loose else "")
        why = "each sub-folder is a class, and a classifier needs at least two"
        raise refusal(found, why=why, fix=f"sort the images into folders such as {folder / 'cat'} and {folder / 'dog'}")
    refuse(
        Problem(f"{folder / name} holds no image", fix="put images there or remove the folder")
        for name, paths in classes.items()
        if not paths
    )
    return classes


def _images_in(folder: Path) -> list[Path]:
    """Files whose ending Pillow knows; notes and tables beside the images are none of our business."""
    endings = Image.registered_extensions()
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in endings and path.is_file() and not path.name.startswith(".")
    )


def _header(path: Path) -> tuple[tuple[int, int], bool]:
    """(width, height) as a viewer shows it, and whether it is grey."""
    with Image.open(path) as image:
        lies_on_its_side = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (image.size[::-1] if lies_on_its_side else image.size), is_grey(image)


def _shared_size(sizes: Sequence[tuple[int, int]]) -> bool:
    return len(set(sizes)) == 1 and all(side in KEPT_SIDES for side in sizes[0])


def _pixels(path: Path, *, grey: bool, keep: bool) -> Pixels:
    with Image.open(path) as image:
        ready = eight_bit(image, grey=grey)
    return to_array(ready if keep else square(ready, SIDE))
