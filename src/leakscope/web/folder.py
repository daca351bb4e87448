"""The folder of runs as the dashboard sees it: names that stay inside it, and an overview of each run."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from leakscope.errors import InputError, Problem
from leakscope.report.page import readable_time, subject
from leakscope.report.reading import Reading, read_run
from leakscope.web.events import last_sign

State = Literal["running", "finished", "stopped", "starting", "broken"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SILENT = 15.0
"""Seconds after its last event in which a run counts as running whoever runs it."""
DEAF = 600.0
"""Seconds after which a run whose worker lives, but says nothing, is taken for another process of that number."""
SHORTEST = 2


@dataclass(frozen=True)
class Overview:
    """One line of the list of runs."""

    name: str
    state: State
    level: str
    sentence: str
    subject: str
    created: str
    done: int
    planned: int
    changed: float
    problem: str = ""

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


class RunsFolder:
    """A folder whose direct sub-folders are runs."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._read: dict[str, tuple[tuple[float, ...], Reading | InputError]] = {}

    def names(self) -> list[str]:
        """The runs, the one that changed last first."""
        found = [entry for entry in self._entries() if _looks_like_a_run(entry)]
        return [entry.name for entry in sorted(found, key=_changed, reverse=True)]

    def _entries(self) -> list[Path]:
        try:
            entries = list(self.path.iterdir())
        except OSError:
            return []
        return [entry for entry in entries if NAME.fullmatch(entry.name) and self._is_inside(entry)]

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.path) and path.is_dir()

    def place(self, name: str, *parts: str) -> Path:
        """The path of a run or of a file in it; whatever leads out of the folder, also by a link, is refused."""
        if not NAME.fullmatch(name) or ".." in parts:
            raise InputError(Problem(f"{name!r} is not the name of a run"))
        path = self.path.joinpath(name, *parts)
        if not path.resolve().is_relative_to(self.path):
            raise InputError(Problem(f"{name!r} leads out of the folder of runs"))
        return path

    def has(self, name: str) -> bool:
        return _looks_like_a_run(self.place(name))

    def read(self, name: str) -> Reading:
        """The run, read again only when its files have changed."""
        path = self.place(name)
        stamp = _stamp(path)
        known = self._read.get(name)
        if known is None or known[0] != stamp:
            self._read[name] = known = (stamp, _read_or_error(path))
        if isinstance(known[1], InputError):
            raise known[1]
        return known[1]

    def overview(self, name: str, *, working: bool) -> Overview:
        """A line for the list, also for a run that cannot be read. `working`: this dashboard is running it."""
        try:
            run = self.read(name)
        except InputError as error:
            problem = str(error.problems[0].found).replace(f"{self.path}{os.sep}", "")
            state: State = "starting" if working else "broken"
            return Overview(name, state, "unknown", "", "", "", 0, 0, _changed(self.path / name), problem)
        verdict = run.verdict
        return Overview(
            name=name,
            state=state_of(run, working=working),
            level=verdict.level if run.cells else "unknown",
            sentence=verdict.sentence if run.cells else "",
            subject=subject(run.cells or run.planned),
            created=readable_time(run.created),
            done=sum(cell.ended for cell in run.cells),
            planned=max(len(run.planned), len(run.cells)),
            changed=_changed(run.path),
        )


def state_of(run: Reading, *, working: bool) -> State:
    """Whether a run goes on, has ended, or was left."""
    if working:
        return "running"
    if run.finished:
        return "finished"
    when, worker = last_sign(run.path)
    silence = time.time() - when
    return "running" if silence < SILENT or (silence < DEAF and _is_alive(worker)) else "stopped"


def _is_alive(process: int | None) -> bool:
    if not process or process < SHORTEST or sys.platform == "win32":  # where signal 0 is Ctrl-C: silence has to do
        return False
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _read_or_error(path: Path) -> Reading | InputError:
    try:
        return read_run(path)
    except InputError as error:
        return error
    except OSError as error:  # it vanished while it was read
        return InputError(Problem(f"cannot read {path.name}: {error.strerror}"))


def _looks_like_a_run(path: Path) -> bool:
    return any((path / name).exists() for name in ("plan.json", "result.json", "cells"))


def _stamp(path: Path) -> tuple[float, ...]:
    """Changes whenever the plan, the result or the record of a cell does."""
    files = [path / "plan.json", path / "result.json", *sorted(path.glob("cells/*/cell.json"))]
    return tuple(_changed(file) for file in files)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
