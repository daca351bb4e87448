"""How often the line-up's intervals hold the true area under the curve, over simulated line-ups.

    python benchmarks/coverage.py [--draws 5000]

Members and others score normally, at distances that give a true area of 0.5, 0.8, 0.95 or 0.99; members spread as
others do, or twice as much. Writes results/coverage.json and exits with 1 where an interval covers in less than 94 %.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import NormalDist, fmean

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from leakscope.files import commit, versions, write_json
from leakscope.lineup import Group, recognise
from leakscope.types import stream

ROOT = Path(__file__).parent.parent
ENOUGH = 0.94


def covered(members: int, others: int, auc: float, spread: float, draws: int) -> tuple[float, float]:
    """The share of intervals that hold `auc`, and their mean width."""
    generator = stream(members * others, f"coverage {auc} {spread}")
    shift = NormalDist().inv_cdf(auc) * (1 + spread**2) ** 0.5
    ends = []
    for _ in range(draws):
        scores = shift + spread * torch.randn(members, generator=generator)
        ends.append(recognise([Group(scores, torch.randn(others, generator=generator))]).intervals["auc"])
    return fmean(low <= auc <= high for low, high in ends), fmean(high - low for low, high in ends)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5000)
    draws = parser.parse_args().draws
    rows = []
    for members in (4, 8, 50):
        for others in (100, 1000):
            for spread in (1.0, 2.0):
                for auc in (0.5, 0.8, 0.95, 0.99):
                    share, width = covered(members, others, auc, spread, draws)
                    row = {"members": members, "others": others, "spread": spread, "auc": auc}
                    rows.append({**row, "covered": share, "width": width})
                    print(row, f"covered {share:.4f}, width {width:.3f}", flush=True)
    head = {"command": "python benchmarks/coverage.py", "draws": draws, "commit": commit(), "versions": versions()}
    write_json(ROOT / "results/coverage.json", {**head, "rows": rows})
    worst = min(row["covered"] for row in rows)
    print(f"worst {worst:.4f}")
    sys.exit(worst < ENOUGH)


if __name__ == "__main__":
    main()
