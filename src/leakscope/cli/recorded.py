"""`leakscope simulate` writes an update file; `leakscope attack` attacks one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope import __version__
from leakscope.cells.recorded import check_file, different_clients, recorded_model
from leakscope.cells.request import Request
from leakscope.cells.scene import simulated_scene
from leakscope.cells.spec import Cell
from leakscope.cli import options as o
from leakscope.cli.audit import carry_out, conclude, key_of
from leakscope.errors import Problem, refuse
from leakscope.observation.update_file import RecordedUpdate, read_update, write_truth, write_update
from leakscope.runs.display import console, marked
from leakscope.victims import fingerprint

SIMULATED = {name: option for name, option in o.CLIENT_OPTIONS.items() if name != "clients"}
RECORDED = {name: o.CLIENT_OPTIONS[name] for name in ("model", "seed", "plugins")}


@o.taking(SIMULATED, {"labels": o.ATTACK_OPTIONS["labels"]})
def simulate(
    given: o.Given,
    out: Annotated[Path, typer.Argument(help="where to write NAME.update.safetensors")],
    round_: Annotated[int | None, typer.Option("--round", help="the round that the file says it is from")] = None,
) -> None:
    """Train a client and write its update file, and apart from it the private truth file for scoring."""
    request = o.request(given, device="cpu")
    if len(request.defenses) > 1:
        one = "clip:bound=1+gaussian:std=0.01"
        refuse([Problem("an update file has one defense", fix=f"--defense {one} applies several in order")])
    (cell,) = request.cells()
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
    console.print(f"update   {update_path}")
    console.print(f"truth    {truth_path}   (private: for scoring only)")


@o.taking(RECORDED, o.ATTACK_OPTIONS, o.RUN_OPTIONS)
def attack(
    given: o.Given,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="*.update.safetensors")],
    truth: Annotated[
        list[Path] | None,
        typer.Option(
            "--truth",
            help="private truth file for each FILE in order, one for all, or the folder of NAME.truth.*",
        ),
    ] = None,
    combine: Annotated[
        bool, typer.Option("--combine", help="also attack all FILEs together: rounds of one client, the same images")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="only look at the files, with advice; attack nothing")] = False,
) -> None:
    """Attack recorded updates; scored only where their truth files are given."""
    request = o.request(given)
    refuse([*request.problems(), *o.place_problems(given)])
    truths = _truths(files, truth or [])
    _look(files, truths, request.model, only=check, as_json=given["json"])
    groups: list[tuple[tuple[Path, ...], Path | None]] = [
        ((path,), private) for path, private in zip(files, truths, strict=True)
    ]
    if combine:
        refuse(different_clients(files))
        groups.append((tuple(files), truths[0]))
    cells = [
        _recorded_cell(paths, private, request, attacked)
        for paths, private in groups
        for attacked in request.attacked()
    ]
    result = carry_out(cells, request, given, name=f"recorded-{key_of(cells)[:8]}")
    conclude(result, as_json=given["json"])


def _truths(files: list[Path], given: list[Path]) -> list[Path | None]:
    """The truth file of each update; a folder holds them under the names of the updates."""
    if not given:
        return [None] * len(files)
    if len(given) == 1 and given[0].is_dir():
        given = [given[0] / path.name.replace(".update.", ".truth.") for path in files]
    given = given * len(files) if len(given) == 1 else given
    if len(given) != len(files):
        refuse([Problem(f"{len(given)} truth files for {len(files)} updates", fix="give one --truth for each FILE")])
    refuse(
        Problem(f"there is no truth file {path}", fix="leave --truth out: the attack runs, nothing is scored")
        for path in given
        if not path.is_file()
    )
    return list(given)


def _look(files: list[Path], truths: list[Path | None], model: str | None, *, only: bool, as_json: bool) -> None:
    """Look at every file before anything runs: warnings are printed, errors refuse, all of them at once."""
    found = [
        (path.name, finding)
        for path, private in zip(files, truths, strict=True)
        for finding in check_file(path, model=model, truth_file=private)
    ]
    errors = [(name, finding) for name, finding in found if finding.severity == "error"]
    if only and as_json:
        print(json.dumps([{"file": name, **finding.as_note()} for name, finding in found]))
    for name, finding in found if only else [pair for pair in found if pair not in errors]:
        colour = "red" if finding.severity == "error" else "yellow"
        console.print(marked(finding.severity, colour, _of(name, finding.problem)))
    if only:
        console.print(f"{len(files)} files looked at: {len(errors)} errors, {len(found) - len(errors)} warnings")
        raise typer.Exit(2 if errors else 0)
    refuse(_of(name, finding.problem) for name, finding in errors)


def _of(name: str, problem: Problem) -> Problem:
    """The problem with the name of its file, which a file that cannot be read says itself."""
    return problem if problem.found.startswith(name) else replace(problem, found=f"{name}: {problem.found}")


def _recorded_cell(paths: tuple[Path, ...], truth: Path | None, request: Request, fields: dict[str, Any]) -> Cell:
    recorded = read_update(paths[0])
    content = b"".join(path.read_bytes() for path in (*paths, *([truth] if truth else [])))
    model = recorded_model(request.model, recorded.model)
    return Cell(
        dataset="recorded",
        data_fingerprint=hashlib.sha256(content).hexdigest()[:16],
        model=model,
        model_fingerprint=fingerprint(model, shape=recorded.shape, classes=recorded.classes),
        defense=recorded.defense,
        n=recorded.update.n,
        **asdict(recorded.update.training),
        seed=request.seed,
        w0="recorded",
        update_file=str(paths[0]),
        more_updates=tuple(map(str, paths[1:])),
        truth_file=str(truth) if truth else None,
        round=recorded.round if len(paths) == 1 else None,
        client=recorded.client,
        **fields,
    )
