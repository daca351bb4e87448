"""`leakscope list`: attacks, defenses, data sets, models, metrics."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from leakscope.attacks import ATTACKS
from leakscope.cli import options as o
from leakscope.data import DATASETS
from leakscope.defenses import DEFENSES
from leakscope.errors import InputError, unknown
from leakscope.metrics import METRICS
from leakscope.plugins import load_plugins
from leakscope.runs.display import console, said
from leakscope.victims import MODELS

Rows = list[dict[str, Any]]
APART = ("name", "description", "parameters")
"""What a person does not read as a fact of its own: `parameters` are in the JSON document."""


def _attacks() -> Rows:
    return [
        {
            "name": name,
            "paper": info.paper,
            "needs": info.needs,
            "cost": info.cost,
            "description": _first_line(info.recipe),
            "parameters": {p.name: p.default for p in inspect.signature(info.recipe).parameters.values()},
        }
        for name, info in ATTACKS.items()
    ]


def _defenses() -> Rows:
    return [{"name": name, "description": _first_line(defense)} for name, defense in DEFENSES.items()]


def _datasets() -> Rows:
    return [{"name": name, "model": info.model, "description": info.description} for name, info in DATASETS.items()]


def _models() -> Rows:
    return [{"name": name, "description": _first_line(factory)} for name, factory in MODELS.items()]


def _metrics() -> Rows:
    return [
        {
            "name": name,
            "label": metric.title,
            "higher_is_better": metric.higher_is_better,
            "needs": metric.needs,
            "description": metric.description,
            "meaning": metric.meaning,
        }
        for name, metric in METRICS.items()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "attacks": _attacks,
    "defenses": _defenses,
    "datasets": _datasets,
    "models": _models,
    "metrics": _metrics,
}


def list_(
    kind: Annotated[str, typer.Argument(help=" | ".join(KINDS))] = "attacks",
    plugins: o.Plugins = None,
    json_: o.Json = False,
) -> None:
    """What there is: attacks, defenses, data sets, models, metrics."""
    load_plugins(plugins or ())
    if kind not in KINDS:
        raise InputError(unknown("list", kind, KINDS))
    rows = KINDS[kind]()
    if json_:
        print(json.dumps(rows))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    for row in rows:
        facts = (f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in row.items() if key not in APART)
        table.add_row(row["name"], said(row["description"], *facts))
    console.print(table)


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]
