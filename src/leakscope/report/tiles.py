"""Images for a page that stands alone: one lossless PNG per tile, pixel by pixel, or pixelated beyond
recognition."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from leakscope.cells.record import Record
from leakscope.report.reading import Images
from leakscope.verdict.levels import relative_scores

TILE = 104
"""Three tiles of this width, in CSS pixels, stand side by side on a phone."""
MOSAIC = 4
"""A redacted image keeps this many blocks a side."""
BUDGET = 10_000_000
"""Bytes of base64 that the images of one report may take; the file stays well below 15 MB."""

Pixels = NDArray[np.uint8]
"""(C, H, W)."""


@dataclass(frozen=True)
class Size:
    """The size of an image and the whole factor it is shown with, so that its pixels stay square and
    sharp."""

    width: int
    height: int

    @property
    def factor(self) -> int:
        return max(1, TILE // max(self.width, self.height))

    @property
    def shown(self) -> tuple[int, int]:
        return self.width * self.factor, self.height * self.factor

    @property
    def is_large(self) -> bool:
        """Whether three of them have to be shrunk to fit: photographs rather than pixels to be told apart."""
        return max(self.shown) > TILE


def size_of(images: Images) -> Size:
    return Size(width=images.shape[-1], height=images.shape[-2])


def encode(image: NDArray[np.float32], *, redact: bool = False) -> str:
    """(C, H, W) in [0, 1] -> base64 of a PNG."""
    pixels = mosaic(image) if redact else to_pixels(image)
    buffer = io.BytesIO()
    as_picture(pixels).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def to_pixels(image: NDArray[np.float32]) -> Pixels:
    """[0, 1] -> 0..255, rounded."""
    return (image * 255 + 0.5).astype(np.uint8)


def mosaic(image: NDArray[np.float32], blocks: int = MOSAIC) -> Pixels:
    """Every pixel replaced by the mean of its block, blocks x blocks of them per image."""
    _, height, width = image.shape
    rows = np.minimum(np.arange(height) * blocks // height, blocks - 1)
    columns = np.minimum(np.arange(width) * blocks // width, blocks - 1)
    out = np.empty_like(image)
    for row in range(blocks):
        for column in range(blocks):
            block = np.ix_(range(len(image)), rows == row, columns == column)
            out[block] = image[block].mean(axis=(1, 2), keepdims=True) if image[block].size else 0
    return to_pixels(out)


def as_picture(pixels: Pixels) -> Image.Image:
    """Grey for one channel, colour for three; other counts show their mean."""
    if len(pixels) == 3:
        return Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.mean(axis=0).astype(np.uint8))


def fingerprint(images: Images) -> str:
    """Equal images, equal name: the originals of one client are stored once however often they are
    attacked."""
    return hashlib.sha256(images.tobytes()).hexdigest()[:12]


def most_leaked_first(cell: Record, n: int) -> list[int]:
    """Indices of the images: identified ones first, then by relative score, then by PSNR, as far as these are known."""
    columns = (cell.each("identified"), relative_scores(cell), cell.each("psnr"))
    known = [column for column in columns if len(column) == n]

    def closeness(i: int) -> tuple[float, ...]:
        values = (column[i] for column in known)
        return tuple(-math.inf if value is None else value for value in values)

    return sorted(range(n), key=closeness, reverse=True)


def shown_per_cell(costs: Sequence[int], counts: Sequence[int], *, budget: int = BUDGET) -> int:
    """How many images each cell may show: all, or the largest equal number that fits the budget.

    `costs` are the bytes of one image of each cell, `counts` the images it has.

    >>> shown_per_cell([3000] * 2, [50] * 2), shown_per_cell([3000] * 200, [50] * 200)
    (50, 16)
    """
    most = max(counts, default=0)
    while most > 1 and sum(c * min(most, n) for c, n in zip(costs, counts, strict=True)) > budget:
        most -= 1
    return most
