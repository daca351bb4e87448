"""`leakscope doctor`: is this machine ready, and if not, what to do."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import torch
import typer
from rich.table import Table
from rich.text import Text

from leakscope import __version__, data
from leakscope.cli import options as o
from leakscope.errors import InputError
from leakscope.metrics.lpips_weights import find_weights
from leakscope.runs.display import console, said

EXTRAS = {
    "dp": "opacus",
    "flower": "flwr",
    "ray": "ray",
    "diffusion": "diffusers",
    "web": "starlette",
    "tune": "optuna",
}
BF16 = "import torch; torch.nn.Linear(64, 64).bfloat16()(torch.ones(64, 64).bfloat16())"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""


def examine(data_root: o.DataRoot = None) -> Iterator[Check]:
    """Every check, cheapest first."""
    yield Check("leakscope", "ok", f"{__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}")
    yield _device()
    yield _threads()
    yield _bf16()
    yield _compiler()
    for name in (name for name in data.DATASETS if name not in ("photos", "folder:PATH")):
        yield _dataset(name, data_root)
    yield _lpips()
    for extra, package in EXTRAS.items():
        here = importlib.util.find_spec(package) is not None
        advice = "" if here else f"pip install 'leakscope[{extra}]'"
        yield Check(
            f"extra {extra}",
            "ok" if here else "note",
            package if here else f"{package} is not installed",
            advice,
        )
    if importlib.util.find_spec("torchvision"):
        yield Check(
            "torchvision",
            "note",
            "installed, but not used",
            "a torchvision built for another torch breaks imports",
        )


def doctor(data_root: o.DataRoot = None, json_: o.Json = False) -> None:
    """Check the environment, with advice."""
    checks = list(examine(data_root))
    if json_:
        print(json.dumps([asdict(check) for check in checks]))
    else:
        console.print(table_of(checks))
    if any(check.state == "problem" for check in checks):
        raise typer.Exit(1)


def table_of(checks: list[Check]) -> Table:
    """A row for each check, its advice below it."""
    colours = {"ok": "green", "note": "yellow", "problem": "red"}
    table = Table.grid(padding=(0, 2))
    for check in checks:
        state = Text(check.state, colours[check.state])
        table.add_row(state, check.name, said(check.found, check.advice))
    return table


def _device() -> Check:
    if torch.cuda.is_available():
        return Check("device", "ok", torch.cuda.get_device_name())
    if torch.backends.mps.is_available():
        return Check("device", "ok", "Apple GPU (mps)")
    return Check("device", "ok", f"CPU, {os.cpu_count()} cores", "run several cells with --workers")


def _threads() -> Check:
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" or torch.get_num_threads() == 1:
        return Check("threads", "ok", f"{torch.get_num_threads()}")
    return Check(
        "threads",
        "note",
        f"{torch.get_num_threads()}, waiting actively",
        "export OMP_WAIT_POLICY=PASSIVE on a shared machine",
    )


def _bf16() -> Check:
    """In a process of its own: on some CPUs the instruction exists on paper and kills the process."""
    code = subprocess.run([sys.executable, "-c", BF16], capture_output=True, check=False).returncode
    if code == 0:
        return Check("bfloat16", "ok", "works (leakscope does not need it)")
    return Check(
        "bfloat16",
        "note",
        f"crashes this CPU (exit code {code})",
        "leakscope never uses it; elsewhere set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
    )


def _compiler() -> Check:
    found = shutil.which("g++") or shutil.which("clang++")
    return Check(
        "C++ compiler",
        "ok" if found else "note",
        found or "none",
        "" if found else "compiled steps need one; eager steps do not",
    )


def _dataset(name: str, root: o.DataRoot) -> Check:
    try:
        return Check(name, "ok", repr(data.load(name, root=root)))
    except InputError as error:
        problem = error.problems[0]
        return Check(name, "note", problem.found.splitlines()[0], problem.fix.splitlines()[0] if problem.fix else "")


def _lpips() -> Check:
    try:
        return Check("LPIPS weights", "ok", str(find_weights()))
    except InputError as error:
        return Check("LPIPS weights", "note", error.problems[0].found, error.problems[0].fix)
