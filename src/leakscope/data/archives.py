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
from contextlib import contextmanager
from pathlib import Path

from leakscope.errors import Problem, refusal, refuse, refusing

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


def unpack_tar(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a tar archive, compressed in whichever way, at `target`."""
    _unpack(archive, target, _extract_tar)


def unpack_zip(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a zip archive at `target`."""
    _unpack(archive, target, _extract_zip)


def unpack_lzma(archive: Path, target: Path) -> None:
    """Decompress one file."""

    def extract(archive: Path, workshop: Path) -> None:
        with lzma.open(archive) as packed, (workshop / target.name).open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)

    _unpack(archive, target, extract)


@contextmanager
def aside(folder: Path) -> Iterator[Path]:
    """A working folder on the same disk, removed whatever happens."""
    workshop = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop)


def _unpack(archive: Path, target: Path, extract: Callable[[Path, Path], None]) -> None:
    with aside(target.parent) as workshop:
        with refusing(f"{archive} cannot be unpacked", *BROKEN, fix="delete it and fetch it again"):
            extract(archive, workshop)
        if not (workshop / target.name).exists():
            raise refusal(f"{archive} holds no {target.name}", fix="delete it and fetch it again")
        (workshop / target.name).replace(target)


def _extract_tar(archive: Path, workshop: Path) -> None:
    with tarfile.open(archive) as tar:
        refuse(_unsafe(workshop, ((member.name, member.isfile() or member.isdir()) for member in tar)))
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # the first releases of Python 3.11 have none
        tar.extractall(workshop)


def _extract_zip(archive: Path, workshop: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = ((each.filename, not stat.S_ISLNK(each.external_attr >> 16)) for each in packed.infolist())
        refuse(_unsafe(workshop, members))
        packed.extractall(workshop)


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
