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
from typing import IO

from leakscope.errors import Problem, refusal, refuse

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


def unpack_tar(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a tar archive, compressed in whichever way, at `target`."""
    _unpack(archive, target, _extract_tar)


def unpack_zip(archive: Path, target: Path) -> None:
    """Put the folder `target.name` of a zip archive at `target`."""
    _unpack(archive, target, _extract_zip)


def unpack_lzma(archive: Path, target: Path) -> None:
    """Decompress one file."""
    _unpack(archive, target, lambda source, folder: _extract_lzma(source, folder / target.name))


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
        try:
            extract(archive, workshop)
        except BROKEN as error:
            raise refusal(f"{archive} cannot be unpacked: {error}", fix="delete it and fetch it again") from error
        if not (workshop / target.name).exists():
            raise refusal(f"{archive} holds no {target.name}", fix="delete it and fetch it again")
        (workshop / target.name).replace(target)


def _extract_tar(archive: Path, workshop: Path) -> None:
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        refuse(_unsafe(workshop, ((member.name, member.isfile() or member.isdir()) for member in members)))
        for member in members:
            _write(tar.extractfile(member) if member.isfile() else None, workshop / member.name)


def _extract_zip(archive: Path, workshop: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        refuse(_unsafe(workshop, ((each.filename, not stat.S_ISLNK(each.external_attr >> 16)) for each in members)))
        for member in members:
            _write(None if member.is_dir() else packed.open(member), workshop / member.filename)


def _extract_lzma(archive: Path, file: Path) -> None:
    with lzma.open(archive) as packed:
        _write(packed, file)


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


def _write(source: IO[bytes] | None, path: Path) -> None:
    """Copy a member to its path, or make the folder where there is nothing to copy."""
    if source is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with source, path.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
