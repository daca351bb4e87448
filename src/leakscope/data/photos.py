"""The embedded default: 32x32 views of colour photographs that ship inside scikit-image and matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from leakscope.data.dataset import Samples
from leakscope.data.pixels import Pixels
from leakscope.errors import refusal, refusing

SIDE = 32
PER_PHOTO = 60
ZOOMS = (1.0, 0.7, 0.5, 0.35, 0.25)
"""Sides of the square windows, as shares of the shorter side of the photograph."""
CLOSE_UP = (0.12, 0.09)
"""For the deep field, in which single galaxies are small."""

PHOTOS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "astronaut": ("skimage", "data/astronaut.png", ZOOMS),
    "cat": ("skimage", "data/chelsea.png", ZOOMS),
    "coffee": ("skimage", "data/coffee.png", ZOOMS),
    "galaxies": ("skimage", "data/hubble_deep_field.jpg", CLOSE_UP),
    "motorcycle": ("skimage", "data/motorcycle_left.png", ZOOMS),
    "officer": ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", ZOOMS),
    "retina": ("skimage", "data/retina.jpg", ZOOMS),
    "rocket": ("skimage", "data/rocket.jpg", ZOOMS),
    "tissue": ("skimage", "data/ihc.png", ZOOMS),
}
"""Label -> the installed package, the file inside it, and how closely to look."""


@cache
def read_photos() -> Samples:
    """60 views of each photograph, (540, 32, 32, 3); the label says which. No network, no randomness.

    Cut once per process: it takes longer than most other things that a small audit does.
    """
    views = [_richest(_views(_open(package, file), zooms)) for package, file, zooms in PHOTOS.values()]
    labels = np.repeat(np.arange(len(PHOTOS)), [len(some) for some in views])
    return Samples(np.concatenate(views), labels, label_names=tuple(PHOTOS))


def photos_path() -> Path:
    """The folder that holds most of the photographs."""
    return _locate("skimage", "data")


def _views(photo: Image.Image, zooms: tuple[float, ...]) -> Iterator[Pixels]:
    """Square windows of each zoom, each half over its neighbour, scaled down to 32x32."""
    for zoom in zooms:
        side = zoom * min(photo.size)
        for top in _starts(photo.height - side, side / 2):
            for left in _starts(photo.width - side, side / 2):
                box = (left, top, left + side, top + side)
                yield np.asarray(photo.resize((SIDE, SIDE), Image.Resampling.LANCZOS, box=box, reducing_gap=3.0))


def _starts(room: float, step: float) -> list[float]:
    """Evenly spaced window starts that reach both edges, about `step` apart."""
    return [float(start) for start in np.linspace(0, room, round(room / step) + 1)]


def _richest(views: Iterator[Pixels]) -> Pixels:
    """The views with the most contrast, in their own order: a flat sky says nothing about a leak."""
    every = np.stack(list(views))
    contrast = every.astype(np.float64).std(axis=(1, 2)).mean(axis=1)
    kept: Pixels = every[np.sort(np.argsort(-contrast, kind="stable")[:PER_PHOTO])]
    return kept


def _open(package: str, file: str) -> Image.Image:
    path = _locate(package, file)
    why = "`photos` uses the pictures inside the scikit-image and matplotlib wheels"
    fix = "pip install --force-reinstall scikit-image matplotlib"
    with refusing(f"the photograph {path} cannot be read", OSError, why=why, fix=fix), Image.open(path) as image:
        return image.convert("RGB")


def _locate(package: str, file: str) -> Path:
    """A file of an installed package, found without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise refusal(f"{package} is not installed", fix="pip install scikit-image matplotlib")
    return Path(spec.origin).parent / file
