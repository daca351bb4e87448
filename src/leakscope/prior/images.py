"""Images to learn a prior from: a public set, or what of a data set no audited client holds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakscope.data import Dataset, draw_client
from leakscope.data.clients import contents
from leakscope.errors import refusal

LEAST = 16
"""Fewer images teach nothing."""


@dataclass(frozen=True, eq=False)
class PublicImages:
    """What a prior is trained on."""

    pixels: Tensor
    """(n, C, H, W) uint8."""
    data: str
    fingerprint: str
    """Of the whole data set."""
    avoided: str
    """Whose images were left out."""

    @property
    def shape(self) -> tuple[int, int, int]:
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def __len__(self) -> int:
        return len(self.pixels)


def gather(dataset: Dataset, *, avoid: Sequence[int], n: int) -> PublicImages:
    """All different images of a data set without those of the clients that the seeds `avoid` draw, n each."""
    if dataset.writers is not None and not dataset.for_priors:
        found, why = f"the writers of {dataset.name} are the clients", "a prior must not know their hands"
        raise refusal(found, why=why, fix=f"--data {dataset.auxiliary or 'another set of such images'}")
    seeds = () if dataset.for_priors else tuple(avoid)
    taken: set[int] = set()
    for seed in seeds:
        taken |= set(digests(draw_client(dataset, n=n, seed=seed).images).tolist())
    kept: list[int] = []
    for place, digest in enumerate(digests(dataset.pixels()).tolist()):
        if digest not in taken:
            taken.add(digest)
            kept.append(place)
    if len(kept) < LEAST:
        raise refusal(f"{len(kept)} images of {dataset.name} are left to learn from", fix="avoid fewer clients")
    named = f"clients of seeds {', '.join(map(str, seeds))} with n = {n}"
    avoided = named if seeds else "none: no client is drawn from it"
    return PublicImages(dataset.pixels()[kept], dataset.name, dataset.fingerprint, avoided)


def digests(images: Tensor) -> Tensor:
    """(n,) int64: what tells images (n, C, H, W), uint8 or in [0, 1], apart by their pixels."""
    named = [hashlib.sha256(content).digest()[:8] for content in contents(images)]
    return torch.from_numpy(np.frombuffer(b"".join(named), dtype="<i8").copy())


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds in a list with ranges.

    >>> parse_seeds("0, 101-103")
    (0, 101, 102, 103)
    """
    seeds: list[int] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", piece)
        if found is None:
            raise refusal(f"--avoid {piece!r} is no seed and no range", fix="--avoid 0,101-105")
        seeds += range(int(found[1]), int(found[2] or found[1]) + 1)
    return tuple(seeds)
