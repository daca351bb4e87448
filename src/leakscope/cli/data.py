"""`leakscope data`: which data sets are at hand, and how to get the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from leakscope import data as datasets
from leakscope.cli import options as o
from leakscope.data.fetch import fetch as fetch_dataset
from leakscope.errors import InputError, Problem
from leakscope.plugins import load_plugins
from leakscope.runs.display import console, said

data = typer.Typer(help="Which data sets are at hand, and how to get the others.", no_args_is_help=True)


@data.command()
def show(data_root: o.DataRoot = None, plugins: o.Plugins = None) -> None:
    """What was found, and where."""
    load_plugins(plugins or ())
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    for name in datasets.DATASETS:
        try:
            table.add_row(name, said(repr(datasets.load(name, root=data_root))))
        except InputError as error:
            table.add_row(name, said("not there", error.problems[0].fix))
    console.print(table)


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="a data set")],
    data_root: o.DataRoot = None,
    plugins: o.Plugins = None,
) -> None:
    """Download a data set from its official address, with its checksum; goes on where it was broken off."""
    load_plugins(plugins or ())
    root = data_root or (Path(os.environ["LEAKSCOPE_DATA"]) if "LEAKSCOPE_DATA" in os.environ else None)
    if root is None:
        raise InputError(Problem("no place to put it", fix="--data-root FOLDER, or set LEAKSCOPE_DATA"))
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(name, total=None)
        place = fetch_dataset(
            name, root=root, progress=lambda done, total: progress.update(bar, completed=done, total=total)
        )
    console.print(f"data     {place}")
