"""Pictures of images, pixel for pixel; RUN/reconstructions.png shows the worst cell, the most leaked images first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from leakscope.files import writing
from leakscope.runs.store import Run

GAP = 1


def to_pixels(images: Tensor) -> NDArray[np.uint8]:
    """(N, C, H, W) in [0, 1] -> uint8 (N, H, W, 3)."""
    rgb = images.detach().cpu().clamp(0, 1).expand(-1, 3, -1, -1) if images.shape[1] == 1 else images.detach().cpu()
    return (rgb.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()


def strip(rows: Sequence[Tensor], *, columns: int | None = None) -> NDArray[np.uint8]:
    """Rows of images (N, C, H, W) one below the other, wrapped into bands of `columns` -> uint8 (height, width, 3)."""
    pixels = [to_pixels(row) for row in rows]
    n, height, width, _ = pixels[0].shape
    columns = min(columns or n, n)
    bands = []
    for start in range(0, n, columns):
        for row in pixels:
            line = np.full((height + GAP, columns * (width + GAP), 3), 255, np.uint8)
            for place, image in enumerate(row[start : start + columns]):
                left = place * (width + GAP)
                line[:height, left : left + width] = image
            bands.append(line)
        bands.append(np.full((3 * GAP, columns * (width + GAP), 3), 255, np.uint8))
    return np.concatenate(bands)


def enlarge(picture: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Every pixel becomes a square, without smoothing."""
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


COLUMNS = 10
WIDTH = 1000


def draw_worst(run: Run, key: str | None) -> None:
    """Draw the worst cell, which `key` names, where it has pictures."""
    record = None if key is None else run.ended(key)
    if record is None or not (path := run.place(record.key) / "images.safetensors").exists():
        return
    images = load_file(path)
    rows = [images[name] for name in ("originals", "reconstructions") if name in images]
    if scores := record.each("psnr"):
        order = sorted(range(len(scores)), key=lambda place: -(scores[place] or 0))
        rows = [row[order] for row in rows]
    small = strip(rows, columns=COLUMNS)
    picture = enlarge(small, max(1, WIDTH // small.shape[1]))
    with writing(run.folder / "reconstructions.png") as aside:
        Image.fromarray(picture).save(aside, format="PNG")
