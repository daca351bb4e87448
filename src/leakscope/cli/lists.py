"""`leakscope list`: attacks, defenses, data sets, models, metrics."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from leakscope.cli import options as o
from leakscope.cli.catalogue import KINDS, live, shipped
from leakscope.errors import InputError, unknown
from leakscope.runs.display import console, said


def list_(
    kind: Annotated[str, typer.Argument(help=" | ".join(KINDS))] = "attacks",
    plugins: o.Plugins = None,
    json_: o.Json = False,
) -> None:
    """What there is: attacks, defenses, data sets, models, metrics."""
    if kind not in KINDS:
        raise InputError(unknown("list", kind, KINDS))
    rows = (live(plugins) if plugins else shipped())[kind]
    if json_:
        print(json.dumps(rows))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    for row in rows:
        told = ((name, value) for name, value in row.items() if name not in ("name", "description") and value != "")
        facts = (f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in told)
        table.add_row(row["name"], said(row["description"], *facts))
    console.print(table)


def _plain(value: object) -> str:
    """`yes`, `none`, or parameters with their defaults: `rate=0.9, scope=global`."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(one)}" for name, one in value.items()) or "none"
    return {True: "yes", False: "no", None: "not set"}[value] if isinstance(value, bool | None) else str(value)
