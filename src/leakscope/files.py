"""Files that are either whole or absent, JSON checked when it is read, and the versions of the code that writes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from leakscope.errors import refusal, refusing

CHUNK = 1 << 20
"""Bytes of a growing file that one look takes in, and more than any line has."""
NO_ROOM = (errno.ENOSPC, errno.EACCES, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What an operating system says of a place that cannot be written to."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a path to write to; on success it becomes `path`, on any failure nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o644)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """JSON without NaN or infinity, which other readers refuse."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def versions() -> dict[str, str]:
    """What a reader needs to repeat the run."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("leakscope", "torch", "numpy", "scipy", "scikit-image"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def read_object(path: Path, *, fix: str = "delete it and run the audit again") -> dict[str, Any]:
    """The JSON object in a file, or an InputError that names the file."""
    with refusing(f"{path} is damaged", OSError, ValueError, RecursionError, fix=fix):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise refusal(f"{path} is damaged: no object", fix=fix)
    return found


@dataclass
class Tail:
    """A file of JSON lines, read as it grows: torn lines wait, and what is no object is passed over."""

    path: Path
    offset: int = 0
    rest: bytes = b""

    def new(self) -> Iterator[dict[str, Any]]:
        """The objects that were appended since the last look."""
        try:
            size = self.path.stat().st_size
            if size < self.offset:
                self.offset, self.rest = 0, b""
            if size == self.offset:
                return
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read(CHUNK)
        except OSError:
            return
        self.offset += len(text)
        *lines, self.rest = (self.rest + text).split(b"\n")
        self.rest = self.rest if len(self.rest) < CHUNK else b""
        yield from (found for line in lines if (found := object_in(line)) is not None)


def object_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line, None where there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def commit() -> str:
    """The commit of the code that runs, empty where it is not a checkout."""
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return said.stdout.strip()
