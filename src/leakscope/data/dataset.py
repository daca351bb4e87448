"""What every source gives back: `Samples` as they were read, and the checked `Dataset` made of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakscope.errors import Problem, refuse
from leakscope.types import Normalisation

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Samples:
    """Images and labels as a source holds them, not yet checked. Fields as in `Dataset`."""

    images: Array
    labels: Array
    writers: Array | None = None
    writer_names: tuple[str, ...] = ()
    splits: Array | None = None
    label_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Private images with their labels, and all that a client or a report needs to know about them."""

    name: str
    """Canonical, e.g. `femnist` or `folder:PATH`."""
    images: NDArray[np.uint8]
    """(n, H, W, C) with C = 1 or 3; 0 is black."""
    labels: NDArray[np.int64]
    """(n,), each in 0 .. classes - 1."""
    classes: int
    """Classes of the data set as such, whether or not each of them occurs."""
    normalisation: Normalisation
    source: str
    """The path it was read from."""
    fingerprint: str
    """First 16 hex digits of the SHA-256 of the content."""
    writers: Array | None = None
    """(n,) integers or strings: who wrote sample i."""
    writer_names: tuple[str, ...] = ()
    """Name of writer value v at place v; empty where the values are all there is."""
    splits: NDArray[np.int64] | None = None
    """(n,): 0 train, 1 test."""
    label_names: tuple[str, ...] = ()
    for_priors: bool = False
    """A prior may learn from all of it, with no seed's client left out."""
    auxiliary: str = ""
    """The name of the public data set of the same kind of images, where there is one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        _, height, width, channels = self.images.shape
        return channels, height, width

    def pixels(self) -> Tensor:
        """(n, C, H, W) uint8."""
        return torch.from_numpy(self.images).permute(0, 3, 1, 2)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        writers = "" if self.writers is None else f", {len(np.unique(self.writers))} writers"
        size = "x".join(map(str, self.shape))
        content = f"{len(self):,} images of {size}, {self.classes} classes{writers}"
        return f"Dataset({self.name}, {content}, {self.source})"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a data set must look like, whichever form it was read from."""

    classes: int | None = None
    """Without a number: as many as there are names of labels, or else labels."""
    channels: tuple[int, ...] = (1, 3)
    side: int | None = None
    """Height and width, where the name of the data set promises them."""
    by_writer: bool = False


COLOUR_SCALE = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
GREY_SCALE = Normalisation((0.5,), (0.25,))
"""Mean and deviation of images of which none are published."""


def assemble(
    name: str, samples: Samples, expected: Expected, *, normalisation: Normalisation | None, source: Path
) -> Dataset:
    """Check the samples, all problems at once, and make the data set: images (n, H, W, C), labels (n,)."""
    refuse(Problem(f"{source}: {p.found}", p.why, p.fix) for p in _problems(samples, expected))
    images = np.ascontiguousarray(samples.images[..., np.newaxis] if samples.images.ndim == 3 else samples.images)
    flat = replace(samples, images=images, labels=samples.labels.reshape(-1))
    usual = COLOUR_SCALE if images.shape[3] == 3 else GREY_SCALE
    splits = None if flat.splits is None else flat.splits.astype(np.int64)
    return Dataset(
        name=name,
        classes=expected.classes or len(flat.label_names) or int(flat.labels.max()) + 1,
        normalisation=normalisation or usual,
        source=str(source),
        fingerprint=_fingerprint(flat),
        **{**vars(flat), "labels": flat.labels.astype(np.int64), "splits": splits},
    )


def _fingerprint(samples: Samples) -> str:
    digest = hashlib.sha256(repr(samples.images.shape).encode())
    digest.update(samples.images.data)
    digest.update(samples.labels.astype("<i8").data)
    for extra in (samples.writers, samples.splits):
        if extra is not None:
            digest.update("\0".join(map(str, extra.tolist())).encode())
    return digest.hexdigest()[:16]


def _problems(samples: Samples, expected: Expected) -> Iterator[Problem]:
    yield from _image_problems(samples.images, expected)
    n = len(samples.images) if samples.images.ndim else 0
    classes = expected.classes or len(samples.label_names)
    yield from _label_problems(samples.labels, n, classes)
    if samples.label_names and len(samples.label_names) != classes:
        yield Problem(f"label_names has {len(samples.label_names)} names for {classes} classes")
    if samples.writers is not None and (samples.writers.shape != (n,) or samples.writers.dtype.kind not in "iuU"):
        yield Problem(f"writer is {_kind(samples.writers)}, not one whole number or string for each of the {n} images")
    if samples.writers is None and expected.by_writer:
        yield Problem("there is no array `writer`", why="clients of this data set are its writers")
    if samples.splits is not None and not _is_split(samples.splits, n):
        yield Problem(f"split is {_kind(samples.splits)}, not a 0 (train) or 1 (test) for each of the {n} images")


def _image_problems(images: Array, expected: Expected) -> Iterator[Problem]:
    if images.dtype != np.uint8:
        scale = "np.rint(images * 255).astype(np.uint8)" if images.dtype.kind == "f" else "images.astype(np.uint8)"
        fix = f"save them as {scale}, if that is what they mean"
        yield Problem(f"images are {images.dtype}, not uint8", "pixels are whole numbers from 0 (black) to 255", fix)
    shaped = images.ndim in (3, 4) and min(images.shape) > 0
    channels = images.shape[3] if images.ndim == 4 else 1
    if not shaped or channels not in expected.channels:
        allowed = " or ".join(map(str, expected.channels))
        transposed = images.ndim == 4 and images.shape[1] in expected.channels
        found = f"images have shape {images.shape}, not (n, height, width, channels) with {allowed} channel(s)"
        yield Problem(found, fix="images.transpose(0, 2, 3, 1) puts the channels last" if transposed else "")
    elif expected.side and images.shape[1:3] != (expected.side, expected.side):
        found = "x".join(map(str, images.shape[1:3]))
        yield Problem(f"images are {found}, not the {expected.side}x{expected.side} that the name promises")


def _label_problems(labels: Array, n: int, classes: int) -> Iterator[Problem]:
    if labels.shape not in ((n,), (n, 1)):
        yield Problem(f"labels have shape {labels.shape} for {n} images", fix="one label per image")
    if labels.dtype.kind not in "iu":
        yield Problem(f"labels are {labels.dtype}, not whole numbers", fix="labels.astype(np.int64)")
    elif labels.size and (labels.min() < 0 or labels.max() >= (classes or math.inf)):
        yield Problem(
            f"labels go from {labels.min()} to {labels.max()}",
            why=f"with {classes} classes they are 0 .. {classes - 1}" if classes else "they count from 0",
        )


def _is_split(splits: Array, n: int) -> bool:
    return splits.shape == (n,) and splits.dtype.kind in "iub" and bool(np.isin(splits, (0, 1)).all())


def _kind(array: Array) -> str:
    return f"{array.dtype} of shape {array.shape}"
