"""From a name to a data set: which folder, which form, and a full account where nothing was found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import escape, glob
from pathlib import Path

import numpy as np

from leakscope.data.catalogue import DATASETS, EITHER, Form, dataset_info
from leakscope.data.dataset import Dataset, Samples, assemble
from leakscope.data.folder import read_folder
from leakscope.data.photos import photos_path, read_photos
from leakscope.errors import InputError, Problem, refusal
from leakscope.user_code import their_code


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
    if dataset_info(name) is DATASETS["photos"]:
        return _assemble(name, read_photos(), photos_path())
    if name.startswith("folder:"):
        return _assemble(name, read_folder(_folder(name)), _folder(name).resolve())
    for candidate, form, paths in _found(name, data_root(root)):
        return _assemble(candidate, _read(candidate, form, paths), paths[0])
    raise InputError(_missing(name, data_root(root)))


def where(name: str, *, root: Path | None = None) -> Path | None:
    """The path a data set would be read from, or None where it is not there."""
    if dataset_info(name) is DATASETS["photos"]:
        return photos_path()
    if name.startswith("folder:"):
        folder = _folder(name)
        return folder if folder.is_dir() else None
    return next((paths[0] for _, _, paths in _found(name, data_root(root))), None)


def _found(name: str, root: Path) -> Iterator[tuple[str, Form, Sequence[Path]]]:
    """Every form of the data set that is there, in order of preference."""
    for candidate in EITHER.get(name, (name,)):
        for form in DATASETS[candidate].forms:
            if paths := sorted(map(Path, glob(_under(root, form)))):  # noqa: PTH207 - a pattern that may start at /
                yield candidate, form, paths


def _under(root: Path, form: Form) -> str:
    """The pattern of a form as seen from here; one that starts at / stays as it is."""
    return os.path.join(escape(str(root)), form.place)  # noqa: PTH118 - a pattern, not a path


def _read(name: str, form: Form, paths: Sequence[Path]) -> Samples:
    with their_code(f"the reader of {name}"):
        try:
            samples: object = form.read(paths)
        except OSError as error:
            raise refusal(f"{paths[0]} cannot be read: {error.strerror or error}") from error
        if not isinstance(samples, Samples):
            found = f"the reader of {name} gives a {type(samples).__name__}"
            raise refusal(found, fix="return leakscope.data.Samples(images, labels)")
        return replace(samples, images=np.asarray(samples.images), labels=np.asarray(samples.labels))


def _assemble(name: str, samples: Samples, source: Path) -> Dataset:
    info = dataset_info(name)
    found = assemble(name, samples, info.expected, normalisation=info.normalisation, source=source)
    return replace(found, for_priors=info.for_priors, auxiliary=info.auxiliary)


def _folder(name: str) -> Path:
    return Path(name.removeprefix("folder:")).expanduser()


def _missing(name: str, root: Path) -> Problem:
    """Every place that was looked at, and every way on."""
    names = EITHER.get(name, (name,))
    places = [_under(root, form) for each in names for form in DATASETS[each].forms]
    instead = [other for each in names for other in DATASETS[each].stand_ins if where(other, root=root)]
    ways = [DATASETS[names[0]].how, "or name the folder that has it with --data-root or LEAKSCOPE_DATA"]
    if instead:
        ways.append(f"or ask for what is there by its own name: {' or '.join(instead)}")
    return Problem(
        f"the data set {name!r} is not there" + ("" if root.is_dir() else f" ({root} is no folder)"),
        why=f"looked for {', '.join(places)}",
        fix="; ".join(ways),
    )
