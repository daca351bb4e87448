"""Tiny-ImageNet-200 in its official form: tiny-imagenet-200/train/<wnid>/images/*.JPEG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from leakscope.data.dataset import Samples
from leakscope.data.pixels import Pixels, each_file, eight_bit, to_array
from leakscope.errors import Problem, refuse

PER_CLASS = 50
"""Of 500 training images per class: 10,000 are plenty for clients and candidates, and are read in seconds."""


def read_tiny_imagenet(paths: Sequence[Path]) -> Samples:
    """The first 50 training images of each class; label = place of the class among the sorted wnids."""
    folder = paths[0].parent
    wnids = sorted(paths[0].read_text(encoding="utf-8").split())
    files = {wnid: sorted((folder / "train" / wnid / "images").glob("*.JPEG"))[:PER_CLASS] for wnid in wnids}
    refuse(
        Problem(f"{folder / 'train' / wnid / 'images'} holds no JPEG image", fix="unpack the official archive again")
        for wnid, some in files.items()
        if not some
    )
    images = each_file([file for some in files.values() for file in some], _pixels)
    return Samples(
        np.stack(images),
        np.repeat(np.arange(len(wnids)), [len(some) for some in files.values()]),
        label_names=_words(folder / "words.txt", wnids),
    )


def _pixels(path: Path) -> Pixels:
    with Image.open(path) as image:
        if image.size != (64, 64):
            raise ValueError(f"it is {image.width}x{image.height}, not 64x64")
        return to_array(eight_bit(image, grey=False))


def _words(path: Path, wnids: Sequence[str]) -> tuple[str, ...]:
    """First English word of each class; the wnid itself where words.txt does not say."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    words = {wnid: text.split(",")[0].strip() for wnid, _, text in (line.partition("\t") for line in lines)}
    return tuple(words.get(wnid, wnid) for wnid in wnids)
