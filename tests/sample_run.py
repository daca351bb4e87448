"""Run folders as the audit writes them, made from real photographs: a stand-in for an attack that took minutes.

The 'reconstructions' are the photographs blurred and drowned in noise, by an amount per attack and defense; every
score is computed from the pixels, so that reports over these folders show what they would show over real ones.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from scipy import ndimage
from skimage import data

from leakscope.cells.record import Record
from leakscope.metrics.intervals import wilson_interval
from leakscope.verdict.levels import judge

Images = NDArray[np.float32]

FAITHFUL = {"ig": 0.25, "sme": 0.62, "nl-sme": 0.85, "fedleak": 0.5}
HIDES = {
    "none": 0.0,
    "clip:bound=4": 0.0,
    "sparsify:rate=0.9": 0.18,
    "gaussian:std=0.1": 0.75,
    "dpsgd:epsilon=1": 0.95,
}
ACCURACY = {"none": 0.412, "clip:bound=4": 0.409, "sparsify:rate=0.9": 0.387, "gaussian:std=0.1": 0.231}


@lru_cache(maxsize=32)
def crops(count: int, *, seed: int = 0, size: int = 32, grey: bool = False) -> Images:
    """(count, C, size, size) pieces of scikit-image's photographs, in [0, 1]."""
    rng = np.random.default_rng(seed)
    step = 160 // size
    pieces = []
    for place in range(count):
        photo = photographs()[place % 4]
        top, left = (int(rng.integers(0, side - step * size)) for side in photo.shape[:2])
        piece = photo[top : top + step * size, left : left + step * size].reshape(size, step, size, step, 3)
        pieces.append(piece.mean(axis=(1, 3)).transpose(2, 0, 1))
    images = np.ascontiguousarray(np.stack(pieces), np.float32)
    return images.mean(axis=1, keepdims=True) if grey else images


@lru_cache(maxsize=1)
def photographs() -> list[Images]:
    return [
        photo.astype(np.float32) / 255 for photo in (data.astronaut(), data.chelsea(), data.coffee(), data.rocket())
    ]


def rebuild(originals: Images, faithful: float, rng: np.random.Generator) -> Images:
    """A reconstruction that keeps a share of each original, the later images less."""
    n = len(originals)
    keep = np.clip(faithful * np.linspace(1.15, 0.7, n), 0, 0.97)[:, None, None, None]
    blurred = ndimage.gaussian_filter(originals, sigma=(0, 0, 1.2 * (1 - faithful), 1.2 * (1 - faithful)))
    noise = ndimage.gaussian_filter(rng.random(originals.shape), sigma=(0, 0, 0.8, 0.8))
    return np.clip(keep * blurred + (1 - keep) * noise, 0, 1).astype(np.float32)


def psnr(a: Images, b: Images) -> NDArray[np.float64]:
    return -10 * np.log10(np.square(a - b).mean(axis=(1, 2, 3)) + 1e-12)


def ssim(a: Images, b: Images) -> NDArray[np.float64]:
    """Structural similarity per image with a 7x7 window."""

    def mean(x: Images) -> Images:
        return ndimage.uniform_filter(x, size=(1, 1, 7, 7))

    ma, mb = mean(a), mean(b)
    va, vb, cov = mean(a * a) - ma * ma, mean(b * b) - mb * mb, mean(a * b) - ma * mb
    index = (2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))
    return index.mean(axis=(1, 2, 3))


def identified(originals: Images, guesses: Images, others: Images) -> NDArray[np.bool_]:
    """Is each original nearer (by correlation) to its reconstruction than every held-out image?"""
    seen, true, rest = (_standardised(images) for images in (guesses, originals, others))
    return (seen * true).sum(axis=1) > (seen @ rest.T).max(axis=1)


def _standardised(images: Images) -> Images:
    flat = images.reshape(len(images), -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def write_run(
    path: Path,
    *,
    attacks: Sequence[str] = ("nl-sme",),
    defenses: Sequence[str] = ("none",),
    seeds: Sequence[int] = (0,),
    rounds: Sequence[int | None] = (None,),
    n: int = 10,
    size: int = 32,
    grey: bool = False,
    truth: bool = True,
    accuracy: bool = True,
    finished: bool = True,
) -> Path:
    """Write RUN/result.json, plan.json and cells/ and return RUN."""
    others = crops(100, seed=999, size=size, grey=grey)
    combos = [(a, d, s, r) for s in seeds for r in rounds for d in defenses for a in attacks]
    cells = []
    for attack, defense, seed, number in combos:
        originals = crops(n, seed=seed, size=size, grey=grey)
        cell = _cell(
            path,
            originals,
            others,
            attack=attack,
            defense=defense,
            seed=seed,
            round_number=number,
            truth=truth,
        )
        if accuracy and defense in ACCURACY:
            cell["accuracy"] = {"defended": ACCURACY[defense], "undefended": ACCURACY["none"]}
        _write(path / "cells" / cell["key"] / "cell.json", cell)
        cells.append(cell)
    head = {
        "schema_version": 1,
        "command": "leakscope audit --dataset photos --out runs/sample",
        "created": CREATED,
    }
    planned = ("key", "dataset", "model", "attack", "defense", "client", "iterations")
    _write(path / "plan.json", {**head, "cells": [{name: cell[name] for name in planned} for cell in cells]})
    if finished:
        verdict = judge([Record.parse(cell, place="cell") for cell in cells])
        summary = {"verdict": verdict.sentence, "level": verdict.level, "worst": verdict.worst_key}
        versions = {"leakscope": "0.1.0", "torch": "2.13.0", "python": "3.11.2"}
        _write(path / "result.json", {**head, "versions": versions, "cells": cells, "summary": summary})
    return path


def multiply(path: Path, clients: int) -> Path:
    """Turn the one client of a run into many: the same scores, the images shifted so that no tile is like another."""
    result = json.loads((path / "result.json").read_text(encoding="utf-8"))
    for cell in list(result["cells"]):
        arrays = load_file(path / "cells" / cell["key"] / "images.safetensors")
        for seed in range(1, clients):
            key = f"{cell['key']}{seed:x}"
            folder = path / "cells" / key
            folder.mkdir()
            save_file(
                {name: np.roll(images, seed, axis=-1) for name, images in arrays.items()}, folder / "images.safetensors"
            )
            result["cells"].append({**cell, "key": key, "client": {**cell["client"], "seed": seed}})
    _write(path / "result.json", result)
    (path / "plan.json").unlink()
    return path


CREATED = "2025-06-02T09:30:00+00:00"


def _cell(
    path: Path,
    originals: Images,
    others: Images,
    *,
    attack: str,
    defense: str,
    seed: int,
    round_number: int | None,
    truth: bool,
) -> dict[str, Any]:
    name = f"{attack}|{defense}|{seed}|{round_number}"
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    faithful = FAITHFUL[attack] * (1 - HIDES[defense]) * (1 if round_number is None else 0.9**round_number)
    guesses = rebuild(originals, faithful, rng)
    mean = others.mean(axis=0).astype(np.float32)
    key = f"{zlib.crc32(name.encode()):08x}"
    arrays = {"reconstructions": guesses, "baseline": mean, **({"originals": originals} if truth else {})}
    folder = path / "cells" / key
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    save_file(arrays, folder / "images.safetensors")
    cell: dict[str, Any] = {
        "key": key,
        "dataset": "photos",
        "model": "cnn-cifar",
        "attack": attack,
        "attack_repr": f"Attack(surrogate={attack}, matching=Cosine(), priors=[TotalVariation(0.01)])",
        "defense": defense,
        "client": {
            "n": len(originals),
            "epochs": 5,
            "batch_size": 5,
            "lr": 0.004,
            "seed": seed,
            "mode": "eval",
            "optimizer": "sgd",
            "steps": 10,
        },
        "knowledge": {"labels": "known", "normalisation": True, "auxiliary": False},
        "w0": "fresh",
        "fuse": None,
        "matching": {"chosen": "mask" if "sparsify" in defense else "global", "why": "seen from the update"},
        "iterations": 300,
        "notes": {"dpsgd": {"nominal_epsilon": 1.0, "accounted_epsilon": 0.848}} if "dpsgd" in defense else {},
        "seconds": 41.7,
        "peak_memory_mb": 512.0,
        "history": _history(faithful),
        "status": "finished",
        **_scores(originals, guesses, np.broadcast_to(mean, originals.shape), others, truth=truth),
    }
    if round_number is not None:
        cell["round"] = round_number
    return cell


def _scores(originals: Images, guesses: Images, blank: Images, others: Images, *, truth: bool) -> dict[str, Any]:
    l_sim = {"l_sim": 0.031, "l_sim_raw": 0.034, "l_sim_fl": 0.21}
    if not truth:
        return {
            "metrics": {"psnr": None, "ssim": None, "identified": None, **l_sim},
            "baseline": {},
            "per_image": {},
            "intervals": {},
            "missing": {"psnr": "the truth file was not given"},
        }
    hits = identified(originals, guesses, others)
    each = {
        "psnr": psnr(originals, guesses),
        "ssim": ssim(originals, guesses),
        "identified": hits.astype(float),
    }
    plain = {"psnr": psnr(originals, blank), "ssim": ssim(originals, blank)}
    base = {name: float(values.mean()) for name, values in plain.items()}
    base["identified"] = len(originals) / (len(originals) + len(others))
    return {
        "metrics": {**{name: float(values.mean()) for name, values in each.items()}, "lpips": None, **l_sim},
        "baseline": base,
        "per_image": {name: [float(v) for v in values] for name, values in each.items()},
        "intervals": {"identified": list(wilson_interval(int(hits.sum()), len(hits)))},
        "missing": {"lpips": "no LPIPS weights: set LEAKSCOPE_WEIGHTS"},
    }


def _history(faithful: float) -> list[dict[str, float]]:
    steps = range(0, 301, 20)
    fall = [np.exp(-k / 60) for k in steps]
    return [
        {
            "iteration": k,
            "objective": 0.9 * f + 0.05 * (1.1 - faithful),
            "l_sim": 0.8 * f + 0.04 * (1.1 - faithful),
            "psnr": 8 + (10 + 14 * faithful) * (1 - f),
        }
        for k, f in zip(steps, fall, strict=True)
    ]


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
