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
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""


def examine(data_root: o.DataRoot = None) -> Iterator[Finding]:
    """Every finding, cheapest first."""
    yield Finding("leakscope", "ok", f"{__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}")
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
        yield Finding(
            f"extra {extra}",
            "ok" if here else "note",
            package if here else f"{package} is not installed",
            advice,
        )
    if importlib.util.find_spec("torchvision"):
        yield Finding(
            "torchvision",
            "note",
            "installed, but not used",
            "a torchvision built for another torch breaks imports",
        )


def doctor(data_root: o.DataRoot = None, json_: o.Json = False) -> None:
    """Check the environment, with advice."""
    findings = list(examine(data_root))
    if json_:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        console.print(table_of(findings))
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)


def table_of(findings: list[Finding]) -> Table:
    """A row for each finding, its advice below it."""
    colours = {"ok": "green", "note": "yellow", "problem": "red"}
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        state = Text(finding.state, colours[finding.state])
        table.add_row(state, finding.name, said(finding.found, finding.advice))
    return table


def _device() -> Finding:
    if torch.cuda.is_available():
        return Finding("device", "ok", torch.cuda.get_device_name())
    if torch.backends.mps.is_available():
        return Finding("device", "ok", "Apple GPU (mps)")
    return Finding("device", "ok", f"CPU, {os.cpu_count()} cores", "run several cells with --workers")


def _threads() -> Finding:
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" or torch.get_num_threads() == 1:
        return Finding("threads", "ok", f"{torch.get_num_threads()}")
    return Finding(
        "threads",
        "note",
        f"{torch.get_num_threads()}, waiting actively",
        "export OMP_WAIT_POLICY=PASSIVE on a shared machine",
    )


def _bf16() -> Finding:
    """In a process of its own: on some CPUs the instruction exists on paper and kills the process."""
    code = subprocess.run([sys.executable, "-c", BF16], capture_output=True, check=False).returncode
    if code == 0:
        return Finding("bfloat16", "ok", "works (leakscope does not need it)")
    return Finding(
        "bfloat16",
        "note",
        f"crashes this CPU (exit code {code})",
        "leakscope never uses it; elsewhere set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
    )


def _compiler() -> Finding:
    found = shutil.which("g++") or shutil.which("clang++")
    return Finding(
        "C++ compiler",
        "ok" if found else "note",
        found or "none",
        "" if found else "compiled steps need one; eager steps do not",
    )


def _dataset(name: str, root: o.DataRoot) -> Finding:
    try:
        return Finding(name, "ok", repr(data.load(name, root=root)))
    except InputError as error:
        problem = error.problems[0]
        return Finding(name, "note", problem.found.splitlines()[0], problem.fix.splitlines()[0] if problem.fix else "")


def _lpips() -> Finding:
    try:
        return Finding("LPIPS weights", "ok", str(find_weights()))
    except InputError as error:
        return Finding("LPIPS weights", "note", error.problems[0].found, error.problems[0].fix)
