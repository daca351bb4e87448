"""Image files to uint8 arrays, and lists of files with every unreadable one reported."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from leakscope.errors import each, refusing

Pixels = NDArray[np.uint8]
T = TypeVar("T")

UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)
"""What Pillow raises for files that are damaged, truncated, absurdly large or no image at all."""


def each_file(paths: Sequence[Path], read: Callable[[Path], T]) -> list[T]:
    """read(path) for every path; all unreadable files are reported at once."""

    def attempt(path: Path) -> T:
        with refusing(f"{path} cannot be read as an image", *UNREADABLE, fix="repair or remove the file"):
            return read(path)

    return each(attempt, paths)


def is_grey(image: Image.Image) -> bool:
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def eight_bit(image: Image.Image, *, grey: bool) -> Image.Image:
    """Upright, in mode L or RGB: 16 bits are scaled to 8, transparency is put on white paper."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = Image.fromarray(np.clip(np.asarray(image).astype(np.int64) // 257, 0, 255).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers, whose range is unknown")
    if image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if grey else "RGB")


def square(image: Image.Image, side: int) -> Image.Image:
    """The largest centred square, scaled to side x side with anti-aliasing."""
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    centre = image.crop((left, top, left + short, top + short))
    return centre.resize((side, side), Image.Resampling.LANCZOS)


def to_array(image: Image.Image) -> Pixels:
    """Mode L or RGB -> (H, W, 1) or (H, W, 3)."""
    array = np.asarray(image, dtype=np.uint8)
    return array[..., np.newaxis] if array.ndim == 2 else array
