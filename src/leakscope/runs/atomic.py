"""Files that are either whole or absent: written aside, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
