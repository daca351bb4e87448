"""Seconds and memory of NL-SME against the number of images, local steps, weights and the size of the images.

    python benchmarks/scaling.py [--steps 5] [--only n] [--draw]

Every point runs in a process of its own on random data; eager steps, one thread. Writes results/scaling.json and
docs/images/scaling.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from leakscope.attacks.descent import Descent
from leakscope.attacks.fitting import Fit
from leakscope.attacks.known import Known
from leakscope.attacks.memory import peak_memory_mb, reset_peak_memory
from leakscope.attacks.recipes import nl_sme
from leakscope.client.training import Client, train
from leakscope.files import versions, write_json, writing
from leakscope.observation.firewall import Observation, observe
from leakscope.types import ClientBatch, Knowledge, LocalTraining, Normalisation
from leakscope.victims import Victim
from leakscope.victims.cnn import _two_block_cnn

ROOT = Path(__file__).parent.parent
CLASSES = 62
LOGARITHMIC = ("steps",)
"""Series that go over orders of magnitude; along the others a straight line means proportional cost."""
MEASURED = {"seconds_per_step": "s per step", "peak_mb": "MB"}


@dataclass(frozen=True)
class Point:
    """One measurement; the defaults are the paper's main setting on FEMNIST."""

    n: int = 50
    epochs: int = 1
    """T = epochs * n / 10."""
    widths: tuple[int, int] = (32, 64)
    hidden: int = 100
    side: int = 28
    memory: str = "normal"


USUAL = Point()
SERIES: dict[str, tuple[str, Sequence[Point]]] = {
    "n": ("images N", [replace(USUAL, n=n) for n in (10, 25, 50, 100, 200, 400)]),
    "n_low": ("images N, --memory low", [replace(USUAL, n=n, memory="low") for n in (50, 100, 200, 400, 1000)]),
    "steps": ("local steps T", [replace(USUAL, epochs=epochs) for epochs in (1, 4, 20, 100, 200)]),
    "weights": (
        "weights",
        [
            USUAL,
            replace(USUAL, widths=(64, 128), hidden=200),
            replace(USUAL, widths=(64, 128), hidden=1000),
            replace(USUAL, widths=(64, 128), hidden=4000),
        ],
    ),
    "side": ("image side", [replace(USUAL, side=side, n=10) for side in (28, 32, 64, 96, 128)]),
}


def observed(point: Point) -> Observation:
    shape = (1, point.side, point.side)
    torch.manual_seed(0)
    module = _two_block_cnn(shape, CLASSES, widths=point.widths, hidden=point.hidden)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(point.n, *shape, generator=generator)
    labels = torch.randint(CLASSES, (point.n,), generator=generator)
    normalisation = Normalisation((0.5,), (0.25,))
    batch = ClientBatch(images, labels, CLASSES, normalisation, "random")
    client = Client(Victim("cnn", module.eval(), shape, CLASSES), batch, LocalTraining(epochs=point.epochs))
    update = train(client, client.victim.weights())
    return observe(update, client.victim, knowledge=Knowledge(), normalisation=normalisation, labels=labels)


def measure(point: Point, steps: int) -> dict[str, float]:
    """Median CPU seconds of a step and the peak of the process, in this process."""
    attack = replace(nl_sme(), adaptations=(Fit(memory=point.memory),))  # type: ignore[arg-type]
    attack, known, notes = attack.adapt(Known.of(observed(point), torch.device("cpu")))
    run = Descent(attack, known, None, seed=0, state=None)
    reset_peak_memory("cpu")
    seconds = []
    for _ in range(steps + 1):
        began = time.process_time()
        run.step()
        seconds.append(time.process_time() - began)
    plan: Any = notes["memory"]
    return {
        "weights": len(known.w0),
        "local_steps": known.training.steps(point.n),
        "seconds_per_step": statistics.median(seconds[1:]),
        "peak_mb": peak_memory_mb("cpu"),
        "estimated_mb": plan["needed_mb"],
        "chunk": plan["chunk"],
    }


def measure_apart(point: Point, steps: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--steps", str(steps), "--point", json.dumps(asdict(point))]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {**asdict(point), **json.loads(found)}


def across(name: str, row: dict[str, Any]) -> float:
    """Where a row stands on the axis of its series."""
    return float(row[{"n": "n", "n_low": "n", "steps": "local_steps", "weights": "weights", "side": "side"}[name]])


def draw(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    series = result["series"]
    figure, rows = pyplot.subplots(2, len(series), figsize=(3 * len(series), 5), squeeze=False)
    for column, (name, points) in enumerate(series.items()):
        xs = [across(name, row) for row in points]
        for axes, key, label in zip(
            rows[:, column], ("seconds_per_step", "peak_mb"), ("s per step", "MB"), strict=True
        ):
            axes.plot(xs, [row[key] for row in points], marker="o")
            axes.set(xlabel=SERIES[name][0], ylabel=label)
            axes.set_ylim(0, 1.1 * max(row[key] for row in points))
            if name in LOGARITHMIC:
                axes.set(xscale="log")
    figure.tight_layout()
    with writing(path) as aside:
        figure.savefig(aside, format="svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", choices=SERIES, action="append")
    parser.add_argument("--draw", action="store_true", help="draw what was measured before, measure nothing")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "scaling.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.point:
        given = json.loads(chosen.point)
        print(json.dumps(measure(Point(**{**given, "widths": tuple(given["widths"])}), chosen.steps)))
        return
    picture = ROOT / "docs" / "images" / "scaling.svg"
    if chosen.draw:
        draw(json.loads(chosen.out.read_text()), picture)
        return
    series: dict[str, list[dict[str, Any]]] = {}
    for name in chosen.only or SERIES:
        series[name] = []
        for point in SERIES[name][1]:
            row = measure_apart(point, chosen.steps)
            series[name].append(row)
            print(f"{name:8} {across(name, row):>12,.0f}  {row['seconds_per_step']:.3f} s  {row['peak_mb']:.0f} MB")
    result = {"command": "python benchmarks/scaling.py", "versions": versions(), "series": series}
    write_json(chosen.out, result)
    draw(result, picture)


if __name__ == "__main__":
    main()
