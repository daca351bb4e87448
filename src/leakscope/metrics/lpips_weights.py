"""Where the LPIPS weights are: a folder of the user's, torch's cache, or their authors' addresses."""

from __future__ import annotations

import http.client
import logging
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.request import Request, urlopen

import torch

from leakscope.errors import InputError, Problem, refuse
from leakscope.metrics.pairs import UnavailableError

VARIABLE = "LEAKSCOPE_WEIGHTS"
PATIENCE = 5.0  # seconds to wait for an answer before saying that there is no network


@dataclass(frozen=True)
class Source:
    """One file: its name in a weights folder, its address, its name in torch's cache and its SHA-256 prefix."""

    file: str
    address: str
    cached: str
    sha256: str
    megabytes: float


_TORCH = "https://download.pytorch.org/models/"
_HEADS = "https://raw.githubusercontent.com/richzhang/PerceptualSimilarity/master/lpips/weights/v0.1/"

SOURCES: dict[str, tuple[Source, Source]] = {
    "vgg": (
        Source(
            "lpips_vgg16_features_fp16.pth",
            f"{_TORCH}vgg16-397923af.pth",
            "vgg16-397923af.pth",
            "397923af",
            528,
        ),
        Source(
            "lpips_vgg_lin_v0.1.pth",
            f"{_HEADS}vgg.pth",
            "lpips_vgg_lin_v0.1.pth",
            "a78928a0af1e5f0fcb1f3b9e8f8c3a2a5a3de244d830ad5c1feddc79b8432868",
            0.01,
        ),
    ),
    "alex": (
        Source(
            "lpips_alexnet_features.pth",
            f"{_TORCH}alexnet-owt-7be5be79.pth",
            "alexnet-owt-7be5be79.pth",
            "7be5be79",
            233,
        ),
        Source(
            "lpips_alex_lin_v0.1.pth",
            f"{_HEADS}alex.pth",
            "lpips_alex_lin_v0.1.pth",
            "df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0",
            0.01,
        ),
    ),
}
"""Backbone -> (convolutions, linear heads)."""


def weights_folder(weights: Path | None) -> Path | None:
    """The folder that was given, else the one LEAKSCOPE_WEIGHTS names, else none."""
    if weights is not None:
        return weights
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def find_weights(weights: Path | None = None) -> Path:
    """The folder with the weights of both backbones, on disk already; all that is missing in one error.

    For a check before any work starts: `score` itself goes on without LPIPS and says why.
    """
    if weights is not None and not weights.is_dir():
        raise InputError(Problem(f"there is no folder {weights}", fix="name the folder of the LPIPS weights"))
    found, problems = [], []
    for source in (source for pair in SOURCES.values() for source in pair):
        try:
            found.append(locate(source, weights, download=False))
        except UnavailableError as error:
            reason, _, advice = str(error).partition(": ")
            problems.append(Problem(reason, why="LPIPS cannot be computed without it", fix=advice))
    refuse(problems)
    return found[0].parent


def locate(source: Source, weights: Path | None, *, download: bool = True) -> Path:
    """The file on disk, downloaded into torch's cache where allowed and possible; else `UnavailableError`."""
    folder = weights_folder(weights)
    kept = Path(torch.hub.get_dir()) / "checkpoints"
    places = [kept / source.cached] if folder is None else [folder / source.file, kept / source.cached]
    found = next((place for place in places if place.is_file()), None)
    if found is not None:
        return found
    looked = " or ".join(str(place) for place in places)
    advice = f"put {source.file} into a folder and name it with --weights or {VARIABLE}"
    if not download:
        raise UnavailableError(f"no LPIPS weights at {looked}: {advice}")
    trouble = _download(source, kept)
    if trouble:
        raise UnavailableError(
            f"no LPIPS weights at {looked}, and {source.address} does not answer ({trouble}): {advice}"
        )
    return kept / source.cached


@cache
def _download(source: Source, folder: Path) -> str:
    """Fetch into the cache (torch writes aside and renames); says what went wrong. Tried once a process."""
    try:
        with urlopen(Request(source.address, method="HEAD"), timeout=PATIENCE):
            pass
        logging.getLogger(__name__).warning(
            "LPIPS: downloading %s (%g MB) to %s; a folder named with %s saves this",
            source.address,
            source.megabytes,
            folder,
            VARIABLE,
        )
        folder.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(
            source.address, str(folder / source.cached), source.sha256, progress=sys.stderr.isatty()
        )
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return ""
