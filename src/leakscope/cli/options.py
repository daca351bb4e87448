"""The options that several verbs share: one spelling everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.cells.request import DEFAULT_ATTACK, Request
from leakscope.errors import Problem
from leakscope.runs.executors import executor_problems

CLIENT, ATTACK, RUN = "The client", "The attack", "The run"


def _option(*names: str, help: str, panel: str, **more: object) -> typer.models.OptionInfo:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)  # type: ignore[call-overload, no-any-return]


Dataset = Annotated[str, _option("--dataset", help="photos, femnist, cifar100, ..., folder:PATH", panel=CLIENT)]
DataRoot = Annotated[Path | None, _option("--data-root", help="folder of the data sets [LEAKSCOPE_DATA]", panel=CLIENT)]
Model = Annotated[str | None, _option("--model", help="a registered model or package.module:factory", panel=CLIENT)]
N = Annotated[int, _option("--n", help="private images of the client", panel=CLIENT)]
Epochs = Annotated[int, _option("--epochs", help="local epochs E", panel=CLIENT)]
BatchSize = Annotated[int | None, _option("--batch-size", help="mini-batch B [min(10, n)]", panel=CLIENT)]
Lr = Annotated[float, _option("--lr", help="local learning rate", panel=CLIENT)]
Mode = Annotated[str, _option("--mode", help="client trains in eval | train mode", panel=CLIENT)]
Optimizer = Annotated[str, _option("--optimizer", help="client trains with sgd | adam", panel=CLIENT)]
Momentum = Annotated[float, _option("--momentum", help="of the client's sgd", panel=CLIENT)]
WeightDecay = Annotated[float, _option("--weight-decay", help="of the client's optimiser", panel=CLIENT)]
Clients = Annotated[int, _option("--clients", help="audit seeds seed .. seed+K-1", panel=CLIENT)]
Seed = Annotated[int, _option("--seed", help="client, initial weights, batch order, dummy start", panel=CLIENT)]
Writer = Annotated[str | None, _option("--writer", help="FEMNIST writer by value or name, or `pooled`", panel=CLIENT)]
W0 = Annotated[str, _option("--w0", help="fresh | pretrain:epochs=3 | FILE.safetensors", panel=CLIENT)]
Defenses = Annotated[
    list[str] | None,
    _option("--defense", help="repeatable: sparsify:rate=0.9, clip:bound=1+gaussian:std=0.01", panel=CLIENT),
]
Plugins = Annotated[
    list[str] | None,
    _option("--plugin", help="repeatable: mine.py or package.mine, with attacks and defenses of yours", panel=CLIENT),
]
Fuse = Annotated[str | None, _option("--fuse", help="rho=0.75,clients=4: the server sees a mixture", panel=CLIENT)]
Attacks = Annotated[
    list[str] | None, _option("--attack", help="repeatable; see `leakscope list attacks`", panel=ATTACK)
]
Settings = Annotated[list[str] | None, _option("--set", help="a part of an attack: nl-sme.lambda_p=0.01", panel=ATTACK)]
Labels = Annotated[str, _option("--labels", help="known | counts | recovered | none", panel=ATTACK)]
Prior = Annotated[
    str | None, _option("--prior", help="folder of a diffusion prior (`leakscope prior train`), for dggi", panel=ATTACK)
]
Matching = Annotated[str, _option("--matching", help="auto | global | mask | layerwise | adaptive", panel=ATTACK)]
Iterations = Annotated[int | None, _option("--iterations", help="steps of the attack [its own]", panel=ATTACK)]
History = Annotated[int, _option("--history", help="a history row every so many iterations", panel=ATTACK)]
Restarts = Annotated[int, _option("--restarts", help="independent starts, best by objective", panel=ATTACK)]
Schedule = Annotated[
    str | None, _option("--schedule", help="paper | fast | cosine | constant [the attack's own]", panel=ATTACK)
]
EarlyStop = Annotated[
    float, _option("--early-stop", help="stop when the objective falls by less than this part", panel=ATTACK)
]
Budget = Annotated[
    str | None, _option("--budget", help="time per cell, e.g. 2m: fewer iterations where needed", panel=ATTACK)
]
Memory = Annotated[
    str, _option("--memory", help="normal | low: fewer copies of the model, fewer images per pass", panel=ATTACK)
]
Compile = Annotated[str, _option("--compile", help="auto | on | off: compiled steps where they pay", panel=ATTACK)]
Device = Annotated[str, _option("--device", help="auto | cpu | cuda | mps", panel=RUN)]
MetricWeights = Annotated[Path | None, _option("--weights", help="LPIPS weights [LEAKSCOPE_WEIGHTS]", panel=RUN)]
Executor = Annotated[str, _option("--executor", help="local | ray: where the cells run", panel=RUN)]
RayAddress = Annotated[
    str | None, _option("--ray-address", help="HOST:PORT of a Ray cluster [one on this machine]", panel=RUN)
]
Workers = Annotated[int, _option("--workers", help="parallel processes of one thread each", panel=RUN)]
Out = Annotated[Path | None, _option("--out", help="run folder; started again it goes on", panel=RUN)]
Json = Annotated[bool, _option("--json", help="one JSON document on stdout, everything else on stderr", panel=RUN)]

CLIENT_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "dataset": (Dataset, "photos"),
    "data_root": (DataRoot, None),
    "model": (Model, None),
    "n": (N, 50),
    "epochs": (Epochs, 20),
    "batch_size": (BatchSize, None),
    "lr": (Lr, 0.004),
    "mode": (Mode, "eval"),
    "optimizer": (Optimizer, "sgd"),
    "momentum": (Momentum, 0.0),
    "weight_decay": (WeightDecay, 0.0),
    "clients": (Clients, 1),
    "seed": (Seed, 0),
    "writer": (Writer, None),
    "w0": (W0, "fresh"),
    "defenses": (Defenses, None),
    "fuse": (Fuse, None),
    "plugins": (Plugins, None),
}
ATTACK_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "attacks": (Attacks, None),
    "settings": (Settings, None),
    "labels": (Labels, "known"),
    "prior": (Prior, None),
    "matching": (Matching, "auto"),
    "iterations": (Iterations, None),
    "history": (History, 50),
    "restarts": (Restarts, 1),
    "schedule": (Schedule, None),
    "early_stop": (EarlyStop, 0.0),
    "budget": (Budget, None),
    "memory": (Memory, "normal"),
    "compile": (Compile, "auto"),
}
PLACE_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "workers": (Workers, 1),
    "executor": (Executor, "local"),
    "ray_address": (RayAddress, None),
    "out": (Out, None),
    "json": (Json, False),
}
RUN_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "device": (Device, "auto"),
    "weights": (MetricWeights, None),
    **PLACE_OPTIONS,
}
"""Groups of options by the name of the `Request` field they fill, each with its default."""

Given = Mapping[str, Any]


def taking(*groups: Mapping[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of these groups beside its own; it receives them as one mapping, `given`."""
    shared = {name: option for group in groups for name, option in group.items()}

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "given"]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in shared.items()
        ]

        @functools.wraps(verb)
        def run(**values: Any) -> None:
            verb(given={name: values.pop(name) for name in shared}, **values)

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([*keyword, *more])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*keyword, *more)}
        return run

    return decorate


def place_problems(given: Given) -> Iterator[Problem]:
    """What is wrong with where the cells are to run, to be told with what is wrong with the request."""
    return executor_problems(given["executor"], workers=given["workers"])


def request(given: Given, **more: Any) -> Request:
    """The request that the options ask for; what was not given is the request's own default."""
    known = {entry.name for entry in fields(Request)}
    asked = {name: value for name, value in given.items() if name in known and value is not None}
    return Request(**{"attacks": [DEFAULT_ATTACK], **asked, **more})
