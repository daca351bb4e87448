"""`leakscope simulate` writes an update file; `leakscope attack` attacks one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from leakscope import __version__
from leakscope.attacks import ATTACKS
from leakscope.attacks.budget import parse_duration
from leakscope.audit import DEFAULT_ATTACK, Request, pick_device, run_cells, split_settings
from leakscope.cell import Cell
from leakscope.cli import options as o
from leakscope.cli.audit import conclude
from leakscope.cli.display import console, showing
from leakscope.errors import Problem, refuse
from leakscope.simulate import recorded_model, simulated_scene
from leakscope.update_file import RecordedUpdate, read_update, write_truth, write_update


def simulate(
    out: Annotated[Path, typer.Argument(help="where to write NAME.update.safetensors")],
    dataset: o.Dataset = "photos",
    data_root: o.DataRoot = None,
    model: o.Model = None,
    n: o.N = 50,
    epochs: o.Epochs = 20,
    batch_size: o.BatchSize = None,
    lr: o.Lr = 0.004,
    mode: o.Mode = "eval",
    seed: o.Seed = 0,
    writer: o.Writer = None,
    w0: o.W0 = "fresh",
    defense: o.Defenses = None,
    fuse: o.Fuse = None,
    labels: o.Labels = "known",
) -> None:
    """Train a client and write its update file, and apart from it the private truth file for scoring."""
    request = Request(
        dataset=dataset, data_root=data_root, model=model, n=n, epochs=epochs, batch_size=batch_size, lr=lr, mode=mode,
        seed=seed, writer=writer, w0=w0, defenses=defense or ["none"], fuse=fuse, labels=labels, device="cpu",
    )  # fmt: skip
    (cell,) = request.cells()[:1]
    scene = simulated_scene(cell, data_root=data_root)
    assert scene.truth is not None
    name = out.name.removesuffix(".safetensors").removesuffix(".update")
    update_path, truth_path = (
        out.with_name(f"{name}.update.safetensors"),
        out.with_name(f"{name}.truth.safetensors"),
    )
    victim = scene.observation.victim
    write_update(
        update_path,
        RecordedUpdate(
            update=scene.update,
            model=cell.model,
            shape=victim.shape,
            classes=victim.classes,
            normalisation=scene.truth.batch.normalisation,
            labels=scene.observation.labels,
            defense=cell.defense,
            producer=f"leakscope {__version__} simulate",
        ),
    )
    batch = scene.truth.batch
    write_truth(
        truth_path,
        images=batch.images,
        labels=batch.labels,
        candidates=scene.truth.candidates,
        dataset=batch.dataset,
    )
    console.print(f"update   {update_path}", highlight=False)
    console.print(f"truth    {truth_path}   (private: for scoring only)", highlight=False)


def attack(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="*.update.safetensors")],
    truth: Annotated[
        list[Path] | None, typer.Option("--truth", help="private truth file, in the order of FILEs")
    ] = None,
    model: o.Model = None,
    attack_: o.Attacks = None,
    set_: o.Settings = None,
    labels: o.Labels = "known",
    matching: o.Matching = "auto",
    iterations: o.Iterations = None,
    history: o.History = 50,
    restarts: o.Restarts = 1,
    schedule: o.Schedule = None,
    early_stop: o.EarlyStop = 0.0,
    budget: o.Budget = None,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    weights: o.MetricWeights = None,
    workers: o.Workers = 1,
    out: o.Out = None,
    json_: o.Json = False,
) -> None:
    """Attack recorded updates; scored only where their truth files are given."""
    names = attack_ or [DEFAULT_ATTACK]
    request = Request(
        attacks=names, settings=set_ or [], labels=labels, matching=matching, iterations=iterations, history=history,
        restarts=restarts, schedule=schedule, early_stop=early_stop, budget=budget, seed=seed, device=device,
        weights=weights,
    )  # fmt: skip
    refuse(request.problems())
    if truth and len(truth) != len(files):
        refuse([Problem(f"{len(truth)} truth files for {len(files)} updates", fix="give one --truth for each FILE")])
    settings = split_settings(request.settings, names)
    cells = [
        _recorded_cell(path, truth[place] if truth else None, name, model, settings[name], request)
        for place, path in enumerate(files)
        for name in names
    ]
    folder = out or Path("runs") / f"recorded-{cells[0].key[:8]}"
    with showing(cells, quiet=json_) as notice:
        result = run_cells(cells, folder, request, workers=workers, notice=notice)
    conclude(result, as_json=json_)


def _recorded_cell(
    path: Path,
    truth: Path | None,
    name: str,
    model: str | None,
    settings: dict[str, Any],
    request: Request,
) -> Cell:
    recorded = read_update(path)
    training = recorded.update.training
    content = path.read_bytes() + (truth.read_bytes() if truth and truth.is_file() else b"")
    return Cell(
        dataset="recorded",
        data_fingerprint=hashlib.sha256(content).hexdigest()[:16],
        model=recorded_model(model, recorded.model),
        attack=name,
        settings=settings,
        defense=recorded.defense,
        n=recorded.update.n,
        epochs=training.epochs,
        batch_size=training.batch_size,
        lr=training.lr,
        mode=training.mode,
        seed=request.seed,
        labels=cast(Any, request.labels),
        matching=request.matching,
        w0="recorded",
        iterations=request.iterations or ATTACKS[name].recipe().iterations,
        history=request.history,
        restarts=request.restarts,
        schedule=request.schedule,
        early_stop=request.early_stop,
        budget=parse_duration(request.budget) if request.budget else None,
        device=pick_device(request.device),
        update_file=str(path),
        truth_file=str(truth) if truth else None,
        round=recorded.round,
    )
