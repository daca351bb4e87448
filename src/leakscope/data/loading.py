"""From a name to a data set: which folder, which form, and a full account where nothing was found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from leakscope.data.catalogue import (
    COLOUR_SCALE,
    DATASETS,
    EITHER,
    GREY_SCALE,
    DatasetInfo,
    Form,
    dataset_info,
)
from leakscope.data.dataset import Dataset, Samples, assemble
from leakscope.data.folder import read_folder
from leakscope.data.photos import photos_path, read_photos
from leakscope.errors import InputError, Problem


def data_root(root: Path | None = None) -> Path:
    """The given folder, else LEAKSCOPE_DATA, else a folder in the user's cache."""
    if root is not None:
        return Path(root).expanduser()
    if named := os.environ.get("LEAKSCOPE_DATA"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "leakscope" / "data"


def load(name: str, *, root: Path | None = None) -> Dataset:
    """A data set by name (see `DATASETS`), read from `root`, else from LEAKSCOPE_DATA."""
    info = dataset_info(name)
    if name == "photos":
        return _assemble(info, read_photos(), photos_path())
    if name.startswith("folder:"):
        return _load_folder(name)
    for candidate, form, paths in _found(name, data_root(root)):
        return _assemble(candidate, _read(form, paths), paths[0])
    raise InputError(_missing(name, data_root(root)))


def where(name: str, *, root: Path | None = None) -> Path | None:
    """The path a data set would be read from, or None where it is not there."""
    if dataset_info(name).name == "photos":
        return photos_path()
    if name.startswith("folder:"):
        folder = _folder(name)
        return folder if folder.is_dir() else None
    return next((paths[0] for _, _, paths in _found(name, data_root(root))), None)


def _found(name: str, root: Path) -> Iterator[tuple[DatasetInfo, Form, Sequence[Path]]]:
    """Every form of the data set that lies under the root, in order of preference."""
    for candidate in EITHER.get(name, (name,)):
        for form in DATASETS[candidate].forms:
            if paths := sorted(root.glob(form.place)):
                yield DATASETS[candidate], form, paths


def _read(form: Form, paths: Sequence[Path]) -> Samples:
    try:
        return form.read(paths)
    except OSError as error:
        raise InputError(Problem(f"{paths[0]} cannot be read: {error.strerror or error}")) from error


def _assemble(info: DatasetInfo, samples: Samples, source: Path) -> Dataset:
    return assemble(info.name, samples, info.expected, normalisation=info.normalisation, source=source)


def _folder(name: str) -> Path:
    return Path(name.removeprefix("folder:")).expanduser()


def _load_folder(name: str) -> Dataset:
    samples = read_folder(_folder(name))
    expected = replace(dataset_info(name).expected, classes=len(samples.label_names))
    scale = COLOUR_SCALE if samples.images.shape[3] == 3 else GREY_SCALE
    return assemble(name, samples, expected, normalisation=scale, source=_folder(name).resolve())


def _missing(name: str, root: Path) -> Problem:
    """Every place that was looked at, and every way on."""
    names = EITHER.get(name, (name,))
    places = [str(root / form.place) for each in names for form in DATASETS[each].forms]
    instead = [other for each in names for other in DATASETS[each].stand_ins if where(other, root=root)]
    ways = [DATASETS[names[0]].how, "or name the folder that has it with --data-root or LEAKSCOPE_DATA"]
    if instead:
        ways.append(f"or ask for what is there by its own name: {' or '.join(instead)}")
    return Problem(
        f"the data set {name!r} is not there" + ("" if root.is_dir() else f" ({root} is no folder)"),
        why=f"looked for {', '.join(places)}",
        fix="; ".join(ways),
    )
