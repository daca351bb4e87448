"""From what was asked for to cells: every problem of a request is found before anything runs."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from leakscope import data, victims
from leakscope.attacks import ATTACKS, read_settings
from leakscope.attacks.budget import parse_duration
from leakscope.attacks.diffusion.granting import without_a_prior
from leakscope.attacks.few_steps import usual_iterations
from leakscope.cells.recorded import recorded_model
from leakscope.cells.request import Request
from leakscope.cells.scene import make_client
from leakscope.cells.spec import AttackSpec, Cell, ClientSpec, Contents, Own, Recorded, Simulated, Source, names_of
from leakscope.client import start
from leakscope.client.own import LocalClient, load_client
from leakscope.defenses import parse_defense
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.observation.fusion import parse_fusion
from leakscope.observation.update_file import read_update
from leakscope.plugins import load_plugins, plugins_fingerprint
from leakscope.prior.folder import check_prior, diffusers, find_prior, fingerprint
from leakscope.settings import TrainingOptions, declared, problems_of
from leakscope.victims import MODELS, unknown_model

BROUGHT = ("dataset", "model", "n", *sorted(names_of(TrainingOptions)), "clients", "writer", "fuse", "rounds")
"""What a client of your own brings itself, and what needs other clients of the same data set."""
T = TypeVar("T")


def plan(request: Request, dataset: data.Dataset | None = None) -> list[Cell]:
    """The cells that answer a request, or all of its problems at once; `dataset` saves reading it once more."""
    if request.client is not None:
        return _of_own(request)
    wrong = problems(request)  # first, because a plugin may bring the data set
    found, unread = gather(lambda: dataset or data.load(request.dataset, root=request.data_root))
    refuse([*wrong, *unread])
    assert found is not None
    cells = grid(request, found.name, found.fingerprint)
    model = victims.fingerprint(str(cells[0].client.model), shape=found.shape, classes=found.classes)
    cells = [cell.but(model_fingerprint=model) for cell in cells]
    for cell in {(cell.client.seed, cell.defense): cell for cell in cells}.values():
        parse_defense(cell.defense).check(make_client(cell.client, found, cell.client.seed))
    return cells


def _of_own(request: Request) -> list[Cell]:
    """The cells of a client that was given."""
    own, unread = gather(partial(own_client, request))
    refuse([*unread, *_overruled(request)])
    assert own is not None
    brought = {**asdict(own.training), "n": len(own), "w0": "own" if request.w0 == "fresh" else request.w0}
    asked = replace(request, client=None, **brought)
    refuse(problems(asked))
    source = Own(own=request.client if isinstance(request.client, str) else None)
    cells = grid(replace(asked, model=own.model_name), own.name, own.fingerprint, source=source)
    for cell in {cell.defense: cell for cell in cells}.values():
        parse_defense(cell.defense).check(own.client(cell.client.seed))
    return cells


def own_client(request: Request) -> LocalClient:
    """The client that was given, or the one that its name stands for."""
    if isinstance(request.client, LocalClient):
        return request.client
    if isinstance(request.client, str) and request.client in data.DATASETS:
        fix = f"--dataset {request.client}"
        raise InputError(Problem(f"{request.client!r} is a data set, not a client of your own", fix=fix))
    if not isinstance(request.client, str):
        kind = type(request.client).__name__
        raise InputError(Problem(f"the client is a {kind}", fix="give a leakscope.LocalClient, or 'client.py:client'"))
    return load_client(request.client)


def _overruled(request: Request) -> Iterable[Problem]:
    """Options that say again, or otherwise, what a client of your own says itself."""
    options = declared(Request)
    for name in BROUGHT:
        if getattr(request, name) != options[name].default:
            flag = options[name].flag
            why = "the client sets it itself, or there are no other clients like it"
            yield Problem(
                f"{flag} cannot be combined with your own client", why, f"leave {flag} out, or change the client"
            )
    if request.w0.startswith("pretrain"):
        yield Problem(
            f"--w0 {request.w0} cannot be combined with your own client",
            why="there are no other images to train on",
            fix="--w0 FILE.safetensors, or let the client's factory load trained weights",
        )


def grid(request: Request, dataset: str, content: str, *, source: Source = Simulated()) -> list[Cell]:  # noqa: B008 - frozen
    """The cells on a data set that need not be there."""
    attacks = attacked(request)
    client = part_of(
        request,
        ClientSpec,
        dataset=dataset,
        model=request.model or data.default_model(dataset),
        batch_size=request.local_batch,
        fuse=str(parse_fusion(request.fuse)) if request.fuse else None,
    )
    contents = contents_of(request, content)
    return [
        Cell(
            client=replace(client, seed=seed),
            attack=attack,
            contents=replace(contents, prior_fingerprint=prior),
            source=source,
            defense=defense,
            plugins=tuple(request.plugins),
            device=pick_device(request.device),
        )
        for seed in range(request.seed, request.seed + request.clients)
        for defense in dict.fromkeys(str(parse_defense(text)) for text in request.defenses)
        for attack, prior in attacks
    ]


def contents_of(request: Request, content: str) -> Contents:
    """What lies in the files that a request names."""
    return Contents(
        data_fingerprint=content,
        w0_fingerprint=start.fingerprint(request.w0),
        plugins_fingerprint=plugins_fingerprint(request.plugins),
    )


def part_of(request: Request, part: type[T], **more: Any) -> T:
    """The fields of a specification that a request has as well."""
    shared = names_of(part) & names_of(Request)
    return part(**{**{name: getattr(request, name) for name in shared}, **more})


def attacked(request: Request) -> list[tuple[AttackSpec, str | None]]:
    """How an update is attacked, whoever it comes from, once for each attack; with the fingerprint of its prior."""
    chosen = split_settings(request.settings, request.attacks)
    return [_attacked(request, attack, chosen[attack]) for attack in dict.fromkeys(request.attacks)]


def _attacked(request: Request, attack: str, settings: dict[str, Any]) -> tuple[AttackSpec, str | None]:
    auxiliary = ATTACKS[attack].auxiliary
    usual = usual_iterations(ATTACKS[attack].recipe(), request.schedule)
    folder = find_prior(request.prior) if auxiliary and request.prior is not None else None
    spec = part_of(
        request,
        AttackSpec,
        attack=attack,
        settings=settings,
        auxiliary=auxiliary,
        prior=None if folder is None else str(folder),
        iterations=request.iterations or usual,
        iterations_asked=request.iterations == usual and "iterations" in ATTACKS[attack].by_model,
        budget=parse_duration(request.budget) if request.budget else None,
    )
    return spec, None if folder is None else fingerprint(folder)


def recorded_cells(request: Request, files: Sequence[Path], truth: Path | None) -> list[Cell]:
    """The cells of an update file, or of several rounds of one client attacked together."""
    recorded, *others = map(read_update, files)
    model = recorded_model(request.model, recorded.model)
    content = b"".join(path.read_bytes() for path in (*files, *([truth] if truth else [])))
    client = ClientSpec(
        dataset="recorded",
        model=model,
        n=recorded.update.n,
        seed=request.seed,
        w0="recorded",
        **asdict(recorded.update.training),
    )
    contents = replace(
        contents_of(request, hashlib.sha256(content).hexdigest()[:16]),
        model_fingerprint=victims.fingerprint(model, shape=recorded.shape, classes=recorded.classes),
    )
    source = Recorded(
        update_file=str(files[0]),
        truth_file=str(truth) if truth else None,
        more_updates=tuple(map(str, files[1:])),
        round=recorded.round if len(files) == 1 else None,
        client=recorded.client,
        tag=recorded.tag if all(other.tag == recorded.tag for other in others) else None,
    )
    return [
        Cell(
            client=client,
            attack=attack,
            contents=replace(contents, prior_fingerprint=prior),
            source=source,
            defense=recorded.defense,
            plugins=tuple(request.plugins),
            device=pick_device(request.device),
        )
        for attack, prior in attacked(request)
    ]


def problems(request: Request) -> list[Problem]:
    """Everything that is wrong with it, once its plugins have added what they register."""
    return [
        *gather(partial(load_plugins, request.plugins))[1],
        *problems_of(request),
        *_unknown_names(request),
        *gather(partial(split_settings, request.settings, request.attacks))[1],
        *_prior_problems(request),
        *(problem for look in _readers(request) for problem in gather(look)[1]),
    ]


def _readers(request: Request) -> Iterable[Callable[[], object]]:
    """Every text of a request that something has to understand."""
    yield partial(start.fingerprint, request.w0)
    yield partial(pick_device, request.device)
    yield from (partial(parse_defense, text) for text in request.defenses)
    if request.fuse:
        yield partial(parse_fusion, request.fuse)
    if request.budget:
        yield partial(parse_duration, request.budget)


def _unknown_names(request: Request) -> Iterable[Problem]:
    yield from (unknown("attack", name, ATTACKS) for name in request.attacks if name not in ATTACKS)
    if request.model is not None and request.model not in MODELS and ":" not in request.model:
        yield unknown_model(request.model)
    if isinstance(request.n, int) and isinstance(request.batch_size, int) and request.batch_size > request.n >= 1:
        fix = f"--batch-size {min(10, request.n)}"
        yield Problem(f"--batch-size {request.batch_size} is larger than --n {request.n}", fix=fix)


def _prior_problems(request: Request) -> Iterable[Problem]:
    using = [name for name in request.attacks if name in ATTACKS and ATTACKS[name].auxiliary]
    if request.prior is None:
        yield from map(without_a_prior, using)
    elif not using:
        yield Problem("--prior without an attack that uses one", fix="add --attack dggi, or drop the option")
    else:
        yield from gather(lambda: check_prior(find_prior(str(request.prior))))[1]
        yield from gather(diffusers)[1]


def split_settings(texts: Sequence[str], attacks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`nl-sme.lambda_p=0.01` -> {"nl-sme": {"lambda_p": 0.01}}; an error if that attack is not in the run.

    A parameter that is given its default is left out, unless a model could change that one: the cell is the same one.
    """
    chosen: dict[str, dict[str, Any]] = {name: {} for name in attacks}
    problems = []
    for text in texts:
        target, equals, value = text.partition("=")
        attack, dot, parameter = target.rpartition(".")
        if not (equals and dot and attack and parameter and value):
            problems.append(Problem(f"--set {text!r} is not attack.parameter=value", fix="--set nl-sme.lambda_p=0.01"))
        elif parameter == "prior":
            problems.append(Problem(f"--set {text!r}: a prior is an option of its own", fix=f"--prior {value}"))
        elif attack not in chosen:
            problems.append(
                Problem(
                    f"--set {text!r}: {attack} is not in this run",
                    fix=f"add --attack {attack}, or drop the option",
                )
            )
        else:
            chosen[attack][parameter] = value
    for attack in filter(ATTACKS.__contains__, chosen):
        ready, found = gather(lambda attack=attack: read_settings(attack, chosen[attack]))  # type: ignore[misc]
        problems += found
        usual = inspect.signature(ATTACKS[attack].recipe).parameters
        given, kept = (ready or {}).items(), ATTACKS[attack].by_model
        chosen[attack] = {name: value for name, value in given if name in kept or value != usual[name].default}
    refuse(problems)
    return chosen


def pick_device(name: str) -> str:
    """`auto` takes a GPU where there is one."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next((device for device in ("cuda", "mps") if available[device]), "cpu")
    if name.partition(":")[0] not in available:
        raise InputError(unknown("device", name, ("auto", *available)))
    if not available[name.partition(":")[0]]:
        raise InputError(Problem(f"there is no {name} device here", fix="--device auto"))
    return name


def gather(make: Callable[[], T]) -> tuple[T | None, list[Problem]]:
    """A value, or the problems that kept it from being made: so that all problems can be shown at once."""
    try:
        return make(), []
    except InputError as error:
        return None, list(error.problems)
