"""How well a prior denoises images it has not seen, against total variation with the best weight.

    python benchmarks/prior.py PRIOR --data femnist [--count 100] [--name femnist]

Noise as in DDPM, x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps with images in [-1, 1], at t = 100, 200, 300 and 400.
The prior sees x_t; total variation (Chambolle) sees x_t / sqrt(abar_t), in which the noise has the deviation
sqrt((1 - abar_t) / abar_t), with the weight that was best for that t on other images. PSNR in dB over the pixels of the
image without its frame, both clipped to [0, 1]. Images that the prior was trained on are left out. Needs a prior
(`leakscope prior train`) and LEAKSCOPE_DATA. Writes results/prior-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from safetensors.torch import load_file
from skimage.restoration import denoise_tv_chambolle
from torch import Tensor

from leakscope import data
from leakscope.files import commit, versions, write_json
from leakscope.metrics.psnr import psnr
from leakscope.prior.denoiser import Denoiser
from leakscope.prior.folder import TRAINED_ON, find_prior, fingerprint, read_denoiser, read_facts
from leakscope.prior.frame import put_in_frame, side_for, take_from_frame
from leakscope.prior.images import digests, pixels
from leakscope.types import stream

ROOT = Path(__file__).parent.parent
TIMES = (100, 200, 300, 400)
WEIGHTS = np.geomspace(0.05, 12.0, 16).tolist()
TUNING = 30
"""Images on which the weight of total variation is chosen."""


def unseen(dataset: data.Dataset, folder: Path, count: int) -> Tensor:
    """(count, C, H, W) in [0, 1]: different images in random order, none of which the prior was trained on."""
    path = folder / TRAINED_ON
    taken = set(load_file(path)["digests"].tolist()) if path.is_file() else set()
    chosen, named = [], digests(pixels(dataset)).tolist()
    for place in torch.randperm(len(dataset), generator=stream(0, "images for a prior")).tolist():
        if len(chosen) < count and named[place] not in taken:
            taken.add(named[place])
            chosen.append(place)
    return pixels(dataset)[chosen].float() / 255


def noisy(denoiser: Denoiser, images: Tensor, t: int) -> Tensor:
    """x_t (N, C, S, S), the same for the same images."""
    framed = put_in_frame(images, denoiser.side)
    return denoiser.noised(framed, t, torch.randn(framed.shape, generator=stream(t, "noise to be removed")))


def by_prior(denoiser: Denoiser, x: Tensor, t: int, shape: tuple[int, int, int]) -> Tensor:
    return take_from_frame(denoiser.clean(x, t), shape).clamp(0, 1)


def by_total_variation(denoiser: Denoiser, x: Tensor, t: int, shape: tuple[int, int, int], *, weight: float) -> Tensor:
    rescaled = take_from_frame(x / denoiser.signal[t + 1].sqrt(), shape)
    cleaned = [denoise_tv_chambolle(image.numpy(), weight=weight, channel_axis=0) for image in rescaled]
    return torch.from_numpy(np.stack(cleaned)).float().clamp(0, 1)


def score(denoise: Callable[[Tensor], Tensor], x: Tensor, images: Tensor) -> list[float]:
    return [float(value) for value in psnr(images, denoise(x))]


def measure(denoiser: Denoiser, images: Tensor, other: Tensor) -> list[dict[str, object]]:
    """A row for every t: mean PSNR of both, and for how many images the prior is ahead."""
    shape: tuple[int, int, int] = tuple(images.shape[1:])  # type: ignore[assignment]
    rows: list[dict[str, object]] = []
    for t in TIMES:

        def filtered(x: Tensor, weight: float, t: int = t) -> Tensor:
            return by_total_variation(denoiser, x, t, shape, weight=weight)

        trial = noisy(denoiser, other, t)
        weight = max(WEIGHTS, key=lambda w: np.mean(score(lambda x: filtered(x, w), trial, other)))
        x = noisy(denoiser, images, t)
        prior = score(lambda x, t=t: by_prior(denoiser, x, t, shape), x, images)
        tv = score(lambda x: filtered(x, weight), x, images)  # noqa: B023
        rows.append(
            {
                "t": t,
                "noise": float(((1 - denoiser.signal[t + 1]) / denoiser.signal[t + 1]).sqrt() / 2),
                "prior_psnr": float(np.mean(prior)),
                "tv_psnr": float(np.mean(tv)),
                "tv_weight": weight,
                "prior_ahead": float(np.mean([a > b for a, b in zip(prior, tv, strict=True)])),
            }
        )
        print(f"t {t}  prior {np.mean(prior):.2f} dB  total variation {np.mean(tv):.2f} dB (weight {weight:.2f})")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prior")
    parser.add_argument("--data", required=True, help="images to denoise: femnist, cifar100, ...")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--name", help="of the results file [the name of the prior's folder]")
    asked = parser.parse_args()
    folder = find_prior(asked.prior)
    denoiser, dataset = read_denoiser(folder), data.load(asked.data)
    if (denoiser.channels, denoiser.side) != (dataset.shape[0], side_for(dataset.shape)):
        parser.error(f"the prior is for {denoiser.channels} channel(s) at {denoiser.side}x{denoiser.side}")
    images = unseen(dataset, folder, asked.count + TUNING)
    rows = measure(denoiser, images[TUNING:], images[:TUNING])
    result = {
        "prior": {**read_facts(folder), "fingerprint": fingerprint(folder)},
        "data": dataset.name,
        "images": len(images) - TUNING,
        "rows": rows,
        "commit": commit(),
        "versions": versions(),
    }
    place = ROOT / "results" / f"prior-{asked.name or folder.name}.json"
    write_json(place, result)
    print(json.dumps(rows[0]), place, sep="\n")


if __name__ == "__main__":
    main()
