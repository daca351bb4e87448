"""`leakscope simulate` writes an update file; `leakscope attack` attacks one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from leakscope import __version__
from leakscope.attacks import ATTACKS
from leakscope.attacks.budget import parse_duration
from leakscope.audit import Request, pick_device, split_settings
from leakscope.cell import Cell
from leakscope.cli import options as o
from leakscope.cli.audit import carry_out, conclude
from leakscope.cli.display import console
from leakscope.errors import Problem, refuse
from leakscope.simulate import recorded_model, simulated_scene
from leakscope.update_file import RecordedUpdate, read_update, write_truth, write_update

SIMULATED = {name: option for name, option in o.CLIENT_OPTIONS.items() if name != "clients"}
RECORDED = {name: o.CLIENT_OPTIONS[name] for name in ("model", "seed")}


@o.taking(SIMULATED, {"labels": o.ATTACK_OPTIONS["labels"]})
def simulate(
    given: o.Given,
    out: Annotated[Path, typer.Argument(help="where to write NAME.update.safetensors")],
    round_: Annotated[int | None, typer.Option("--round", help="the round that the file says it is from")] = None,
) -> None:
    """Train a client and write its update file, and apart from it the private truth file for scoring."""
    request = o.request(given, device="cpu")
    (cell,) = request.cells()[:1]
    scene = simulated_scene(cell, data_root=request.data_root)
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
            round=round_,
            client=str(request.seed),
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


@o.taking(RECORDED, o.ATTACK_OPTIONS, o.RUN_OPTIONS)
def attack(
    given: o.Given,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="*.update.safetensors")],
    truth: Annotated[
        list[Path] | None,
        typer.Option("--truth", help="private truth file for each FILE in order, or the folder that has NAME.truth.*"),
    ] = None,
) -> None:
    """Attack recorded updates; scored only where their truth files are given."""
    request = o.request(given)
    refuse(request.problems())
    truths = _truths(files, truth or [])
    settings = split_settings(request.settings, request.attacks)
    cells = [
        _recorded_cell(path, private, name, settings[name], request)
        for path, private in zip(files, truths, strict=True)
        for name in request.attacks
    ]
    result = carry_out(cells, request, given, name=f"recorded-{cells[0].key[:8]}")
    conclude(result, as_json=given["json"])


def _truths(files: list[Path], given: list[Path]) -> list[Path | None]:
    """The truth file of each update; a folder holds them under the names of the updates."""
    if not given:
        return [None] * len(files)
    if len(given) == 1 and given[0].is_dir():
        given = [given[0] / path.name.replace(".update.", ".truth.") for path in files]
    if len(given) != len(files):
        refuse([Problem(f"{len(given)} truth files for {len(files)} updates", fix="give one --truth for each FILE")])
    refuse(
        Problem(f"there is no truth file {path}", fix="leave --truth out: the attack runs, nothing is scored")
        for path in given
        if not path.is_file()
    )
    return list(given)


def _recorded_cell(
    path: Path,
    truth: Path | None,
    name: str,
    settings: dict[str, Any],
    request: Request,
) -> Cell:
    recorded = read_update(path)
    training = recorded.update.training
    content = path.read_bytes() + (truth.read_bytes() if truth and truth.is_file() else b"")
    return Cell(
        dataset="recorded",
        data_fingerprint=hashlib.sha256(content).hexdigest()[:16],
        model=recorded_model(request.model, recorded.model),
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
        client=recorded.client,
    )
