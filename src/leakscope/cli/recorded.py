"""`leakscope simulate` writes an update file; `leakscope attack` attacks one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leakscope import __version__
from leakscope.audits.audit import carry_out, name_of
from leakscope.cells.planning import problems, recorded_cells
from leakscope.cells.recorded import check_file, different_clients
from leakscope.cells.scene import simulated_scene
from leakscope.cli import options as o
from leakscope.cli.audit import conclude
from leakscope.errors import Problem, refuse
from leakscope.observation.update_file import RecordedUpdate, write_truth, write_update
from leakscope.runs.display import console, marked
from leakscope.settings import ATTACK, CLIENT, RUN


@o.taking(CLIENT, only=["labels"], but=["clients", "rounds", "federation"])
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
            model=str(cell.client.model),
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


@o.taking(ATTACK, RUN, only=["model", "seed", "plugins"])
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
    json_: o.Json = False,
) -> None:
    """Attack recorded updates; scored only where their truth files are given."""
    request = o.request(given, json=json_)
    refuse(problems(request))
    truths = _truths(files, truth or [])
    _look(files, truths, request.model, only=check, as_json=json_)
    groups: list[tuple[tuple[Path, ...], Path | None]] = [
        ((path,), private) for path, private in zip(files, truths, strict=True)
    ]
    if combine:
        refuse(different_clients(files))
        groups.append((tuple(files), truths[0]))
    cells = [cell for paths, private in groups for cell in recorded_cells(request, paths, private)]
    conclude(carry_out(request, cells, name=name_of(cells, "recorded")), as_json=json_)


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
