"""Clients drawn from a data set, and the images of it that a client does not have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakscope.data.dataset import Array, Dataset
from leakscope.errors import Problem, refuse, unknown
from leakscope.types import ClientBatch, stream

POOLED = "pooled"
REVISION = 0
"""Of the draw of clients and candidates: raise it when a seed stands for other images than before."""
Indices = NDArray[np.int64]


def draw_client(dataset: Dataset, *, n: int, seed: int, writer: str | None = None) -> ClientBatch:
    """The private batch of one client: n training images, the same ones for the same seed.

    A data set with writers gives the first n training samples of one writer: the one that `writer` names, by
    its value in the writer array or else by its name; else the seed's among those with at least n. `pooled`
    draws over all writers, as every data set without them does.
    """
    training = _training(dataset)
    refuse(_problems(dataset, training, n=n, writer=writer))
    if dataset.writers is None or writer == POOLED:
        order = torch.randperm(len(training), generator=stream(seed, "client"))
        chosen, author = training[order[:n].numpy()], writer
    else:
        value = _choose_writer(dataset.writers[training], n, seed) if writer is None else _value(dataset, writer)
        chosen, author = training[dataset.writers[training] == value][:n], str(value)
    return ClientBatch(
        images=to_unit(dataset.images[chosen]),
        labels=torch.from_numpy(dataset.labels[chosen]),
        classes=dataset.classes,
        normalisation=dataset.normalisation,
        dataset=dataset.name,
        writer=author,
    )


def held_out(dataset: Dataset, *, avoid: ClientBatch, count: int, seed: int) -> Tensor:
    """Up to `count` different images that the client does not have: (count', C, H, W) in [0, 1].

    Images are told apart by their pixels, so a second copy of a private image is no candidate either.
    """
    taken = set(contents(avoid.images))
    chosen: list[int] = []
    for index in torch.randperm(len(dataset), generator=stream(seed, "held out")).tolist():
        if len(chosen) >= count:
            break
        content = dataset.images[index].tobytes()
        if content not in taken:
            taken.add(content)
            chosen.append(index)
    return to_unit(dataset.images[np.array(chosen, dtype=np.int64)])


def contents(images: Tensor) -> Iterator[bytes]:
    """What tells images (n, C, H, W), uint8 or in [0, 1], apart: their pixels as (H, W, C) bytes."""
    whole = images if images.dtype == torch.uint8 else (images.detach().cpu() * 255).round().to(torch.uint8)
    return (image.tobytes() for image in whole.permute(0, 2, 3, 1).numpy())


def to_unit(images: NDArray[np.uint8]) -> Tensor:
    """(n, H, W, C) uint8 -> (n, C, H, W) float in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255


def _training(dataset: Dataset) -> Indices:
    """Places of the training samples, in the data set's order."""
    return np.arange(len(dataset)) if dataset.splits is None else np.flatnonzero(dataset.splits == 0)


def _choose_writer(writers: Array, n: int, seed: int) -> object:
    """One fixed order of the eligible writers, walked by the seed: neighbouring seeds differ."""
    values, counts = np.unique(writers, return_counts=True)
    eligible = values[counts >= n]
    order = torch.randperm(len(eligible), generator=stream(0, "writers"))
    chosen: object = eligible[int(order[seed % len(eligible)])]
    return chosen


def _value(dataset: Dataset, writer: str) -> object | None:
    """The value in the writer array that the user means: a value as written, else the value of that name."""
    assert dataset.writers is not None
    present = {str(value): value for value in np.unique(dataset.writers)}
    if writer in present:
        found: object = present[writer]
        return found
    places = [str(place) for place, name in enumerate(dataset.writer_names) if name == writer]
    return next((present[place] for place in places if place in present), None)


def _problems(dataset: Dataset, training: Indices, *, n: int, writer: str | None) -> Iterator[Problem]:
    if n < 1:
        yield Problem(f"n = {n} is not at least 1", fix="--n 50")
    if writer is not None and dataset.writers is None:
        yield Problem(f"{dataset.name} has no writers to choose {writer!r} from", fix="leave --writer out")
    if dataset.writers is None or writer == POOLED:
        if n > (most := len(training)):
            found = f"n = {n} is larger than the {most} training images of {dataset.name}"
            yield Problem(found, fix=f"--n {most} or less")
    elif writer is None:
        counts = np.unique(dataset.writers[training], return_counts=True)[1]
        if n > (most := max(counts, default=0)):
            found = f"no writer of {dataset.name} has n = {n} training samples; the most are {most}"
            yield Problem(found, why="a client is one writer", fix=f"--n {most} or less, or --writer {POOLED}")
    elif (value := _value(dataset, writer)) is None:
        known = [*map(str, np.unique(dataset.writers)), *dataset.writer_names]
        hint, _, _ = unknown("writer", writer, known).fix.partition("known: ")
        some = ", ".join(known[:5])  # without printing hundreds of them
        fix = f"{hint}{len(known)} values and names are known, such as {some}; or {POOLED}"
        yield Problem(f"unknown writer {writer!r}", fix=fix)
    elif n > (most := int((dataset.writers[training] == value).sum())):
        fix = f"--n {most}, or leave --writer out" if most else "leave --writer out"
        yield Problem(f"writer {writer!r} has {most} training samples, fewer than n = {n}", fix=fix)
