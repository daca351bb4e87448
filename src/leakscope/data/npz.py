"""`<name>.npz`: arrays `images`, `labels`, and where they exist `writer`, `split` and the names."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from leakscope.data.dataset import Array, Samples
from leakscope.errors import InputError, Problem, refusal, refuse

BROKEN = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, MemoryError)
"""What numpy and zipfile raise for truncated, damaged, encrypted or pickled content."""


def read_npz(paths: Sequence[Path]) -> Samples:
    """leakscope's own form. `writer_names` names each value of `writer`, or without that each sample's."""
    found = read_arrays(
        paths[0], needed=("images", "labels"), optional=("writer", "split", "label_names", "writer_names")
    )
    writers, names = _writers(found)
    return Samples(
        found["images"],
        found["labels"],
        writers=writers,
        writer_names=names,
        splits=found.get("split"),
        label_names=_strings(found.get("label_names")),
    )


def read_arrays(path: Path, *, needed: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
    """Plain arrays of an npz file. Nothing is unpickled; every missing or unreadable array is reported."""
    try:
        with path.open("rb") as file:  # numpy itself leaves a file open that turns out to be no archive
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, NpzFile):
                with archive:
                    return _pick(path, archive, needed, optional)
    except BROKEN as error:
        raise InputError(_damaged(path, error)) from error
    fix = "write it with numpy.savez_compressed(file, images=..., labels=...)"
    raise refusal(f"{path} holds one bare array, not an npz archive", fix=fix)


def _pick(path: Path, archive: NpzFile, needed: Iterable[str], optional: Iterable[str]) -> dict[str, Array]:
    fix = f"it has: {', '.join(sorted(archive.files)) or 'none at all'}"
    problems = [Problem(f"{path} has no array {name!r}", fix=fix) for name in needed if name not in archive.files]
    arrays = {}
    for name in (name for name in (*needed, *optional) if name in archive.files):
        try:
            arrays[name] = archive[name]
        except BROKEN as error:
            problems.append(_damaged(path, error, array=name))
    refuse(problems)
    return arrays


def _damaged(path: Path, error: BaseException, *, array: str = "") -> Problem:
    where = f"array {array!r} of {path}" if array else str(path)
    pickled = "allow_pickle" in str(error) or "pickle" in str(error).lower()
    return Problem(
        f"{where} cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
        why="it holds Python objects, and unpickling them could run any code" if pickled else "",
        fix="save plain number and string arrays" if pickled else "copy or download the file again",
    )


def _writers(found: dict[str, Array]) -> tuple[Array | None, tuple[str, ...]]:
    """(writer per sample, names by value): names count where each value of `writer` is a place among them."""
    writers, names = found.get("writer"), _strings(found.get("writer_names"))
    if writers is None:
        return (np.array(names) if names and len(names) == len(found["images"]) else None), ()
    if writers.dtype.kind == "S":
        writers = np.char.decode(writers, "latin-1")
    indexes = writers.dtype.kind in "iu" and writers.size and writers.min() >= 0 and writers.max() < len(names)
    return writers, names if indexes else ()


def _strings(array: Array | None) -> tuple[str, ...]:
    if array is None or array.ndim != 1:
        return ()
    return tuple(item.decode("latin-1") if isinstance(item, bytes) else str(item) for item in array.tolist())
