"""A Flower app, recorded and audited, on this machine alone: `python examples/flower/run.py [--quick]`.

Three steps: train in rounds with the recorder on, attack what was recorded, write the report (docs/flower.md).
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from leakscope import data
from leakscope.cli import app
from leakscope.integrations.flower_local import run_app

HERE = Path(os.path.relpath(Path(__file__).parent))
RUN = Path("runs/flower")


def main(updates: Path, out: Path, *, quick: bool) -> None:
    photos = updates / "photos.npz"
    prepare(updates, photos)
    print("1. FedAvg with two clients, recorder on", flush=True)
    config = {"data": str(photos), "leakscope.out": str(updates), "num-server-rounds": 1 if quick else 3}
    run_app(HERE, clients=2, run_config=config)

    print("2. attack what was recorded", flush=True)
    files = sorted(updates.glob("*.update.safetensors"))
    effort = ["--iterations", 5] if quick else ["--iterations", 150, "--workers", 2]
    model = HERE / "quickstart" / "task.py:Net"
    leakscope("attack", *files, "--truth", updates, "--model", model, "--out", out, *effort)

    print("3. the report, again at any time from the run folder alone", flush=True)
    leakscope("report", out)


def prepare(updates: Path, photos: Path) -> None:
    """The clients' images as a file, and no recordings of an earlier run."""
    updates.mkdir(parents=True, exist_ok=True)
    for old in updates.glob("client-*.safetensors"):
        old.unlink()
    dataset = data.load("photos")
    np.savez(photos, images=dataset.images, labels=dataset.labels)


def leakscope(*arguments: object) -> None:
    """The command line, in this process; the report names the command it was made with."""
    sys.argv = ["leakscope", *map(str, arguments)]
    print("$", *sys.argv, flush=True)
    if code := app(standalone_mode=False):
        sys.exit(code)


if __name__ == "__main__":  # the attack's workers import this file
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=Path, default=HERE / "updates", help="where the recorder writes")
    parser.add_argument("--out", type=Path, help=f"the run folder [{RUN}, made anew]")
    parser.add_argument("--quick", action="store_true", help="one round, few iterations: does it run?")
    options = parser.parse_args()
    if options.out is None and (RUN / "plan.json").is_file():
        shutil.rmtree(RUN)
    main(options.updates, options.out or RUN, quick=options.quick)
