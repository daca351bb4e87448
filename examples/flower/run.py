"""A Flower app, recorded and audited, on this machine alone: `python examples/flower/run.py [--quick]`.

Three steps: train in rounds with the recorder on, attack what was recorded, write the report (docs/flower.md).
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from leakscope import data
from leakscope.cli import app
from leakscope.integrations.flower_local import run_app

HERE = Path(__file__).parent


def leakscope(*arguments: object) -> None:
    """The command line, in this process."""
    print("$ leakscope", *arguments, flush=True)
    if code := app([str(argument) for argument in arguments], standalone_mode=False):
        sys.exit(code)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--updates", type=Path, default=HERE / "updates", help="where the recorder writes")
parser.add_argument("--out", type=Path, default=Path("runs/flower"), help="the run folder")
parser.add_argument("--quick", action="store_true", help="one round, few iterations: does it run?")
options = parser.parse_args()

options.updates.mkdir(parents=True, exist_ok=True)
for old in options.updates.glob("client-*.safetensors"):
    old.unlink()
photos = data.load("photos")
np.savez(options.updates / "photos.npz", images=photos.images, labels=photos.labels)

print("1. three rounds of FedAvg with two clients, recorder on", flush=True)
settings = {"data": str(options.updates / "photos.npz"), "leakscope.out": str(options.updates)}
run_app(HERE, clients=2, run_config={**settings, **({"num-server-rounds": 1} if options.quick else {})})

print("2. attack what was recorded", flush=True)
files = sorted(options.updates.glob("*.update.safetensors"))
effort = ["--iterations", "5"] if options.quick else ["--iterations", "200", "--workers", "2"]
leakscope(
    "attack",
    *files,
    "--truth",
    options.updates,
    "--model",
    HERE / "quickstart/task.py:Net",
    "--out",
    options.out,
    *effort,
)

print("3. the report, again at any time from the run folder alone", flush=True)
leakscope("report", options.out)
