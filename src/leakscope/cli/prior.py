"""`leakscope prior`: learn what images of a kind look like, for attacks that use it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image

from leakscope import data as datasets
from leakscope.cells.planning import pick_device
from leakscope.cli import options as o
from leakscope.errors import InputError, Problem, refuse
from leakscope.files import writing
from leakscope.paper.grid import CLIENTS, FIRST_SEED
from leakscope.plugins import load_plugins
from leakscope.prior.denoiser import sample
from leakscope.prior.folder import FACTS, diffusers, read_facts
from leakscope.prior.frame import take_from_frame
from leakscope.prior.images import gather, parse_seeds
from leakscope.prior.training import CHECKPOINT, Recipe, Training, fit, preset, store
from leakscope.runs.display import bars, console
from leakscope.runs.local import stop_on_interrupt
from leakscope.runs.pictures import enlarge, strip
from leakscope.types import stream

AVOIDED = f"{FIRST_SEED}-{FIRST_SEED + CLIENTS - 1}"
SHEET, SAMPLES, SAMPLING_STEPS = "samples.png", 32, 50
LINE_SECONDS = 120.0

prior = typer.Typer(help="Learn what images of a kind look like, for attacks that use it.", no_args_is_help=True)


@prior.callback()
def group() -> None:
    """Learn what images of a kind look like, for attacks that use it."""


@prior.command()
def train(
    name: Annotated[
        str, typer.Option("--data", help="femnist_public, cifar10_public, folder:PATH, tiny_imagenet, ...")
    ],
    out: Annotated[Path, typer.Option("--out", help="folder of the prior; started again it goes on")],
    data_root: o.DataRoot = None,
    plugins: o.Plugins = None,
    steps: Annotated[int | None, typer.Option("--steps", help="in all [9000 on a CPU: two hours on one core]")] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="stop after so many minutes in all")] = None,
    channels: Annotated[
        int | None, typer.Option("--channels", help="of the finest level [32 on a CPU, else 64]")
    ] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="[32 on a CPU, else 128]")] = None,
    lr: Annotated[float, typer.Option("--lr", help="rate of Adam")] = 2e-4,
    seed: Annotated[int, typer.Option("--seed", help="weights, order of the images, noise")] = 0,
    avoid: Annotated[
        str, typer.Option("--avoid", help="seeds of clients whose images stay out, where clients are drawn from --data")
    ] = AVOIDED,
    avoid_n: Annotated[int, typer.Option("--avoid-n", help="images of each of those clients")] = 50,
    device: o.Device = "auto",
) -> None:
    """Train a small diffusion model on images that no audited client holds: started again it goes on."""
    load_plugins(plugins or ())
    where = pick_device(device)
    usual = preset(where)
    steps = usual.steps if steps is None else steps
    limits = (("--steps", steps), ("--minutes", 1 if minutes is None else minutes), ("--avoid-n", avoid_n))
    refuse(Problem(f"{option} {value} is not positive", fix=f"{option} 50") for option, value in limits if value <= 0)
    diffusers()
    recipe = Recipe(channels=channels or usual.channels, batch_size=batch_size or usual.batch_size, lr=lr, seed=seed)
    _require_room(out)
    public = gather(datasets.load(name, root=data_root), avoid=parse_seeds(avoid), n=avoid_n)
    training = Training(public, recipe, device=where)
    console.print(f"images   {len(public):,} of {public.data}; left out: {public.avoided}")
    with stop_on_interrupt() as asked, showing("training", steps) as bar:

        def tell(now: Training) -> None:
            bar(now.step, f"loss {now.loss:.4f}")

        whole = fit(training, out, steps=steps, minutes=minutes, stopped=asked.is_set, tell=tell)
    if not whole:
        console.print("interrupted: the same command goes on from here")
        raise typer.Exit(130)
    _draw(training, out / SHEET)
    store(training, out)
    facts = read_facts(out)
    console.print(f"prior    {out}   {facts['steps']:,} steps, loss {facts['loss']:.4f}")
    console.print(f"samples  {out / SHEET}")


def _require_room(out: Path) -> None:
    """A folder that is empty, or one of ours."""
    if out.exists() and not out.is_dir():
        raise InputError(Problem(f"{out} is a file", fix="choose another --out"))
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in (CHECKPOINT, FACTS)):
        raise InputError(Problem(f"{out} is not empty and not a prior", fix="choose another --out"))


def _draw(training: Training, path: Path) -> None:
    """A sheet of images from noise: what the prior believes in."""
    with showing("samples", SAMPLING_STEPS) as bar:
        draw = stream(training.recipe.seed, "samples of a prior")
        drawn = sample(
            training.denoiser(), SAMPLES, generator=draw, steps=SAMPLING_STEPS, tell=lambda done: bar(done, "")
        )
    picture = strip([take_from_frame(drawn, training.public.shape)], columns=8)
    with writing(path) as aside:
        Image.fromarray(enlarge(picture, 3)).save(aside, format="PNG")


class Lines:
    """For a log file: a line every few minutes, with the time left."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.first = what, total, -1
        self.began = self.told = time.monotonic()

    def __call__(self, done: int, note: str) -> None:
        now = time.monotonic()
        self.first = done if self.first < 0 else self.first
        if now - self.told >= LINE_SECONDS and done > self.first:
            self.told = now
            left = (now - self.began) / (done - self.first) * (self.total - done) / 60
            console.print(f"{self.what} {done}/{self.total}  {note}  about {left:.0f} min left")


@contextmanager
def showing(what: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar on a terminal, else a line every few minutes; the call takes what is done and a note."""
    if not sys.stderr.isatty():
        yield Lines(what, total)
        return
    with bars() as progress:
        task = progress.add_task(what, total=total, note="")
        yield lambda done, note: progress.update(task, completed=done, note=note)
