"""Unpacking what others packed: nothing is written outside the target, which appears whole or not at all."""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path

from leakscope.errors import Problem, refusal, refuse, refusing

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


def _whole(extract: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    """Unpack aside on the same disk; what the target is named appears there at once, or not at all."""

    @wraps(extract)
    def unpack(archive: Path, target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target.parent) as workshop:
            inside = Path(workshop) / target.name
            with refusing(f"{archive} cannot be unpacked", *BROKEN, fix="delete it and fetch it again"):
                extract(archive, inside)
            if not inside.exists():
                raise refusal(f"{archive} holds no {target.name}", fix="delete it and fetch it again")
            inside.replace(target)

    return unpack


@_whole
def unpack_tar(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a tar archive, compressed in whichever way, at `target`."""
    with tarfile.open(archive) as tar:
        refuse(_unsafe(target.parent, ((member.name, member.isfile() or member.isdir()) for member in tar)))
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # the first releases of Python 3.11 have none
        tar.extractall(target.parent)


@_whole
def unpack_zip(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a zip archive at `target`."""
    with zipfile.ZipFile(archive) as packed:
        members = ((each.filename, not stat.S_ISLNK(each.external_attr >> 16)) for each in packed.infolist())
        refuse(_unsafe(target.parent, members))
        packed.extractall(target.parent)


@_whole
def unpack_lzma(archive: Path, target: Path) -> None:
    """Decompress one file."""
    with lzma.open(archive) as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)


def _unsafe(workshop: Path, members: Iterable[tuple[str, bool]]) -> Iterator[Problem]:
    """Members that would land elsewhere, and links and devices, through which later members could."""
    inside = workshop.resolve()
    for name, plain in members:
        if not plain or not (inside / name).resolve().is_relative_to(inside):
            yield Problem(
                f"the archive holds {name!r}, which is no plain file or folder inside it",
                why="unpacking it could overwrite other files of yours",
                fix="do not use this archive",
            )
