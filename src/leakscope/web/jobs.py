"""Audits that this dashboard runs: started as `leakscope audit`, stopped by the interrupt that keeps their state.

What was asked for is kept in RUNS/.leakscope/<name>.json, beside the runs and not in them, so that a stopped audit
can be resumed by another dashboard. It is read back through the same checks as a form: nothing on disk becomes a
command.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakscope.errors import InputError, Problem
from leakscope.web.folder import RunsFolder
from leakscope.web.form import Form, read_form

COMMAND = (sys.executable, "-m", "leakscope", "audit")
MOST_JOBS = 8
PATIENCE = 20.0
"""Seconds an audit has to keep its state when the dashboard ends."""
INTERRUPTED = (130, 0xC000013A)
"""Exit codes of an audit that ended as was asked: its own, and that of Windows for one that had not begun."""
NOTES = ".leakscope"
TAIL = 4000


class Jobs:
    """The audits that run now, by the name of their run."""

    def __init__(self, folder: RunsFolder, *, command: Sequence[str] = COMMAND) -> None:
        self.folder, self.command = folder, tuple(command)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.lock = threading.Lock()

    def is_working(self, name: str) -> bool:
        with self.lock:
            return self._is_working(name)

    def _is_working(self, name: str) -> bool:
        process = self.running.get(name)
        return process is not None and process.poll() is None

    def working(self) -> list[str]:
        """The names of the runs that go on here, some of which may have no folder yet."""
        with self.lock:
            return [name for name in self.running if self._is_working(name)]

    def start(self, form: Form) -> None:
        """Start a new audit; its name must be free."""
        place = self.folder.place(form.name)
        if place.exists() and any(place.iterdir()):
            raise InputError(Problem(f"there is a run {form.name!r} already", fix="choose another name, or resume it"))
        self._note(form.name).parent.mkdir(parents=True, exist_ok=True)
        self._launch(form)
        self._note(form.name).write_text(json.dumps(form.as_fields()), encoding="utf-8")

    def can_resume(self, name: str) -> bool:
        return self._note(name).is_file() and not self.is_working(name)

    def resume(self, name: str) -> None:
        """Run the same command again: the engine goes on from its checkpoints."""
        self._launch(self.form(name))

    def form(self, name: str) -> Form:
        """What a run was started with."""
        self.folder.place(name)
        try:
            fields = json.loads(self._note(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                Problem(
                    f"{name!r} was not started here", fix="run its command again in a terminal, with the same --out"
                )
            ) from error
        return read_form({**_checked(fields), "name": [name]})

    def stop(self, name: str) -> None:
        """Ask an audit to stop between two iterations, keeping its state."""
        with self.lock:
            if not self._is_working(name):
                raise InputError(Problem(f"{name!r} is not running here", fix="stop it where it was started"))
            _interrupt(self.running[name])

    def stop_all(self) -> None:
        """Stop every audit, wait until each has kept its state, and end those that do not obey."""
        with self.lock:
            left = [process for process in self.running.values() if process.poll() is None]
            for process in left:
                _interrupt(process)
            for process in left:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def complaint(self, name: str) -> str:
        """The end of what a failed audit printed; empty for one that runs or ended well."""
        with self.lock:
            process = self.running.get(name)
            code = None if process is None else process.poll()
        if not code or code in INTERRUPTED:
            return ""
        try:
            text = self._log(name).read_bytes()[-TAIL:].decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        return text or f"the audit ended with code {code}"

    def _launch(self, form: Form) -> None:
        out = self.folder.place(form.name)
        with self.lock:
            if self._is_working(form.name):
                raise InputError(Problem(f"{form.name!r} is running already"))
            if sum(self._is_working(name) for name in self.running) >= MOST_JOBS:
                raise InputError(Problem(f"{MOST_JOBS} audits are running", fix="stop one, or wait"))
            command = [*self.command, *form.options(), "--out", str(out)]
            with self._log(form.name).open("wb") as log:
                # a group of its own: Ctrl-C in the terminal reaches the dashboard alone, which then stops its audits
                self.running[form.name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                    env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
                )

    def _note(self, name: str) -> Path:
        return self.folder.path / NOTES / f"{name}.json"

    def _log(self, name: str) -> Path:
        return self.folder.path / NOTES / f"{name}.log"


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, or Ctrl-Break where a group of its own can be sent nothing else."""
    process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))


def _checked(fields: object) -> Mapping[str, Sequence[str]]:
    """The shape of a form, whatever the file holds."""
    if not isinstance(fields, dict):
        return {}
    return {str(key): [str(value) for value in values] for key, values in fields.items() if isinstance(values, list)}
