"""`leakscope` as a person types it: in this process, which has torch already, or in one of its own.

A process of its own is for what only a process shows: signals, exit codes of the interpreter, workers, a clean stdout.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

WITHOUT = {name: value for name, value in os.environ.items() if not name.startswith("LEAKSCOPE_")}
ENVIRONMENT = {**WITHOUT, "OMP_NUM_THREADS": "1", "TORCH_HOME": "/nonexistent"}
"""Neither the data nor the weights of this machine."""

Done = subprocess.CompletedProcess[str]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "leakscope", *map(str, arguments)]


def process(*arguments: object, cwd: Path | None = None) -> Done:
    """Run a process of its own to its end."""
    words = command(*arguments)
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False, timeout=250)


def leakscope(*arguments: object, cwd: Path | None = None) -> Done:
    """`main` in this process, with what it leaves behind put back: folder, environment, streams, plugins."""
    from leakscope.cli import main
    from leakscope.plugins import REGISTRIES

    words = ["leakscope", *map(str, arguments)]
    with contextlib.ExitStack() as put_back:
        for registry in REGISTRIES.values():
            put_back.enter_context(mock.patch.dict(registry))
        put_back.enter_context(mock.patch.dict(os.environ, ENVIRONMENT, clear=True))
        put_back.enter_context(contextlib.chdir(cwd or Path.cwd()))
        put_back.enter_context(mock.patch.object(sys, "argv", words))
        out = put_back.enter_context(contextlib.redirect_stdout(io.StringIO()))
        err = put_back.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def succeed(*arguments: object) -> None:
    """Run a command, which must succeed."""
    done = leakscope(*arguments)
    assert done.returncode == 0, done.stderr


def workers_of(run: Path) -> set[int]:
    """The processes that have written events of a run."""
    lines = (line for path in run.rglob("events.jsonl") for line in path.read_text().splitlines())
    return {json.loads(line)["worker"] for line in lines if line.endswith("}")}
