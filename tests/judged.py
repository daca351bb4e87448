"""Scored cells for the tests of verdicts and gates."""

from __future__ import annotations

from leakscope.cells.record import Record


def cell(*, hits: int = 0, n: int = 50, ssim: float = 0.2, chance: float = 0.02, **more: object) -> dict:
    """A scored cell with `hits` of n images identified, all at the same SSIM, baseline SSIM 0.2."""
    return {
        "key": "a",
        "attack": "sme",
        "defense": "none",
        "client": {"n": n},
        "status": "finished",
        "metrics": {"identified": hits / n, "ssim": ssim, "psnr": 15.0},
        "baseline": {"identified": chance, "ssim": 0.2},
        "per_image": {"identified": [1.0] * hits + [0.0] * (n - hits), "ssim": [ssim] * n},
        **more,
    }


def read(one: dict) -> Record:
    """The cell as it is read from a file."""
    return Record.parse(one, place="cell")
