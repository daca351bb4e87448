"""What an auditor asks for, and the grid of cells that answers it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import torch

from leakscope import data, victims
from leakscope.attacks import ATTACKS, MATCHINGS, read_settings
from leakscope.attacks.budget import parse_duration
from leakscope.attacks.compiled import Choice
from leakscope.attacks.diffusion.granting import without_a_prior
from leakscope.attacks.fitting import Memory
from leakscope.attacks.schedules import SCHEDULES, usual_iterations
from leakscope.cells.scene import make_client
from leakscope.cells.spec import Cell
from leakscope.client import start
from leakscope.client.own import LocalClient, load_client
from leakscope.defenses import parse_defense
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.observation.fusion import parse_fusion
from leakscope.plugins import load_plugins, plugins_fingerprint
from leakscope.prior.folder import check_prior, diffusers, find_prior, fingerprint
from leakscope.types import LabelKnowledge, LocalTraining
from leakscope.victims import MODELS, unknown_model

DEFAULT_ATTACK = "span-sme"
BROUGHT = (
    *("dataset", "model", "n", "epochs", "batch_size", "lr", "mode", "optimizer", "momentum", "weight_decay"),
    *("clients", "writer", "fuse", "rounds"),
)
"""What a client of your own brings itself, and what needs other clients of the same data set."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What an auditor asks for; the options of the command line, one spelling everywhere."""

    client: LocalClient | str | None = None
    """A client of your own, or where to find one: `client.py:client`. It brings data, model and training settings."""
    dataset: str = "photos"
    data_root: Path | None = None
    weights: Path | None = None
    model: str | None = None
    attacks: Sequence[str] = (DEFAULT_ATTACK,)
    settings: Sequence[str] = ()
    """`nl-sme.lambda_p=0.01`"""
    defenses: Sequence[str] = ("none",)
    n: int = 50
    epochs: int = 20
    batch_size: int | None = None
    lr: float = 0.004
    mode: str = "eval"
    optimizer: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    clients: int = 1
    seed: int = 0
    writer: str | None = None
    fuse: str | None = None
    plugins: Sequence[str] = ()
    """Files or modules that register attacks, defenses or models."""
    labels: str = "known"
    prior: str | None = None
    """Folder of a diffusion prior, or the name of one on the Hugging Face hub, for the attacks that use one."""
    matching: str = "auto"
    w0: str = "fresh"
    iterations: int | None = None
    """The attack's own where it is not given: 1000 as in the paper, 300 for span-sme."""
    history: int = 50
    restarts: int = 1
    schedule: str | None = None
    early_stop: float = 0.0
    budget: str | None = None
    memory: str = "normal"
    compile: str = "auto"
    rounds: int = 0
    federation: int = 5
    device: str = "auto"

    def cells(self, dataset: data.Dataset | None = None, *, also: Iterable[Problem] = ()) -> list[Cell]:
        """The grid, after every problem of the request was looked for; `dataset` saves reading it once more.

        `also`: problems that the caller has found, to be told with them.
        """
        if self.client is not None:
            return self._own_cells(also)
        problems = [*self.problems(), *also]
        _, more = _gather(lambda: split_settings(self.settings, self.attacks))
        found, worse = (
            (dataset, []) if dataset is not None else _gather(lambda: data.load(self.dataset, root=self.data_root))
        )
        refuse([*problems, *more, *worse])
        assert found is not None
        cells = self.grid(found.name, found.fingerprint)
        model = victims.fingerprint(cells[0].model, shape=found.shape, classes=found.classes)
        cells = [cell.model_copy(update={"model_fingerprint": model}) for cell in cells]
        for cell in {(cell.seed, cell.defense): cell for cell in cells}.values():
            parse_defense(cell.defense).check(make_client(cell, found, cell.seed))
        return cells

    def _own_cells(self, also: Iterable[Problem]) -> list[Cell]:
        """The grid of a client that was given, after every problem of it and of the request."""
        own, problems = _gather(self.local_client)
        refuse([*problems, *self._overruled()])
        assert own is not None
        training = asdict(own.training)
        asked = replace(self, client=None, model=own.model_name, n=len(own), **training)
        asked = replace(asked, w0="own" if self.w0 == "fresh" else self.w0)
        settings = _gather(lambda: split_settings(self.settings, self.attacks))[1]
        refuse([*replace(asked, model=None).problems(), *settings, *also])
        source = self.client if isinstance(self.client, str) else None
        cells = [cell.model_copy(update={"own": source}) for cell in asked.grid(own.name, own.fingerprint)]
        for cell in {cell.defense: cell for cell in cells}.values():
            parse_defense(cell.defense).check(own.client(cell.seed))
        return cells

    def local_client(self) -> LocalClient:
        """The client that was given, or the one that its name stands for."""
        assert self.client is not None
        return load_client(self.client) if isinstance(self.client, str) else self.client

    def _overruled(self) -> Iterable[Problem]:
        """Options that say again, or otherwise, what a client of your own says itself."""
        usual = Request()
        for name in BROUGHT:
            if getattr(self, name) != getattr(usual, name):
                option = f"--{name.replace('_', '-')}"
                yield Problem(f"{option} and a client of your own", fix=f"leave {option} out, or change the client")
        if self.w0.startswith("pretrain"):
            yield Problem(
                f"--w0 {self.w0} and a client of your own",
                why="there are no other images to train on",
                fix="--w0 FILE.safetensors, or let the client's factory load trained weights",
            )

    @property
    def local_batch(self) -> int:
        """B, which is 10 unless it is given or there are fewer images."""
        return min(10, max(1, self.n)) if self.batch_size is None else self.batch_size

    def grid(self, dataset: str, fingerprint: str) -> list[Cell]:
        """The cells of a data set that need not be there."""
        attacked = self.attacked()
        return [
            Cell(
                dataset=dataset,
                data_fingerprint=fingerprint,
                model=self.model or data.default_model(dataset),
                defense=defense,
                n=self.n,
                epochs=self.epochs,
                batch_size=self.local_batch,
                lr=self.lr,
                mode=cast(Any, self.mode),
                optimizer=cast(Any, self.optimizer),
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                seed=seed,
                writer=self.writer,
                fuse=str(parse_fusion(self.fuse)) if self.fuse else None,
                w0=self.w0,
                w0_fingerprint=start.fingerprint(self.w0),
                rounds=self.rounds,
                federation=self.federation,
                **fields,
            )
            for seed in range(self.seed, self.seed + self.clients)
            for defense in dict.fromkeys(str(parse_defense(text)) for text in self.defenses)
            for fields in attacked
        ]

    def attacked(self) -> list[dict[str, Any]]:
        """The fields of a cell that say how an update is attacked, whoever it comes from; once for each attack."""
        chosen = split_settings(self.settings, self.attacks)
        same = {
            "labels": self.labels,
            "matching": self.matching,
            "plugins": tuple(self.plugins),
            "plugins_fingerprint": plugins_fingerprint(self.plugins),
            "history": self.history,
            "restarts": self.restarts,
            "schedule": self.schedule,
            "early_stop": self.early_stop,
            "budget": parse_duration(self.budget) if self.budget else None,
            "memory": self.memory,
            "compile": self.compile,
            "device": pick_device(self.device),
        }
        return [
            {
                "attack": attack,
                "settings": chosen[attack],
                "iterations": self.iterations or usual_iterations(ATTACKS[attack].recipe(), self.schedule),
                **self.granted(attack),
                **same,
            }
            for attack in dict.fromkeys(self.attacks)
        ]

    def granted(self, attack: str) -> dict[str, Any]:
        """The fields of a cell for an attacker who has other images, where the attack uses them."""
        if not ATTACKS[attack].auxiliary:
            return {}
        if self.prior is None:
            return {"auxiliary": True}
        folder = find_prior(self.prior)
        return {"auxiliary": True, "prior": str(folder), "prior_fingerprint": fingerprint(folder)}

    def _prior_problems(self) -> Iterable[Problem]:
        using = [name for name in self.attacks if name in ATTACKS and ATTACKS[name].auxiliary]
        if self.prior is None:
            yield from map(without_a_prior, using)
        elif not using:
            yield Problem("--prior without an attack that uses one", fix="add --attack dggi, or drop the option")
        else:
            yield from _gather(lambda: check_prior(find_prior(str(self.prior))))[1]
            yield from _gather(diffusers)[1]

    def problems(self) -> Iterable[Problem]:
        """Everything that is wrong with it, once its plugins have added what they register."""
        yield from _gather(lambda: load_plugins(self.plugins))[1]
        yield from _gather(lambda: start.fingerprint(self.w0))[1]
        yield from (unknown("attack", name, ATTACKS) for name in self.attacks if name not in ATTACKS)
        if self.model is not None and self.model not in MODELS and ":" not in self.model:
            yield unknown_model(self.model)
        yield from _gather(lambda: pick_device(self.device))[1]
        yield from self._prior_problems()
        choices = (
            ("--labels", self.labels, get_args(LabelKnowledge)),
            ("--matching", self.matching, MATCHINGS),
            ("--mode", self.mode, ("eval", "train")),
            ("--optimizer", self.optimizer, ("sgd", "adam")),
            ("--memory", self.memory, get_args(Memory)),
            ("--compile", self.compile, get_args(Choice)),
            *((("--schedule", self.schedule, tuple(SCHEDULES)),) if self.schedule else ()),
        )
        for option, value, allowed in choices:
            if value not in allowed:
                yield unknown(option, value, allowed)
        for option, number in (
            ("--n", self.n),
            ("--clients", self.clients),
            ("--iterations", 1 if self.iterations is None else self.iterations),
        ):
            if number < 1:
                yield Problem(f"{option} {number} is not at least 1", fix=f"{option} 1 or more")
        for option, number in (("--restarts", self.restarts), ("--history", self.history)):
            if number < 1:
                yield Problem(f"{option} {number} is not at least 1", fix=f"{option} 1 or more")
        if self.seed < 0:
            yield Problem(f"--seed {self.seed} is negative", fix="--seed 0 or more")
        if self.batch_size is not None and self.batch_size > self.n:
            yield Problem(
                f"--batch-size {self.batch_size} is larger than --n {self.n}",
                fix=f"--batch-size {min(10, self.n)}",
            )
        _, found = _gather(
            lambda: LocalTraining(
                epochs=self.epochs,
                batch_size=self.local_batch,
                lr=self.lr,
                momentum=self.momentum,
                weight_decay=self.weight_decay,
            )
        )
        yield from found
        for text in self.defenses:
            yield from _gather(partial(parse_defense, text))[1]
        if self.fuse:
            yield from _gather(partial(parse_fusion, self.fuse))[1]
        if self.budget:
            yield from _gather(partial(parse_duration, self.budget))[1]


def split_settings(texts: Sequence[str], attacks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`nl-sme.lambda_p=0.01` -> {"nl-sme": {"lambda_p": 0.01}}; an error if that attack is not in the run.

    A parameter that is given its default is left out: the cell is the same one.
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
        ready, found = _gather(lambda attack=attack: read_settings(attack, chosen[attack]))  # type: ignore[misc]
        problems += found
        usual = inspect.signature(ATTACKS[attack].recipe).parameters
        chosen[attack] = {name: value for name, value in (ready or {}).items() if value != usual[name].default}
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


def _gather(make: Callable[[], T]) -> tuple[T | None, list[Problem]]:
    """A value, or the problems that kept it from being made: so that all problems can be shown at once."""
    try:
        return make(), []
    except InputError as error:
        return None, list(error.problems)
