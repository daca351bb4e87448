"""Code that the auditor names: a model, a client, a plugin. Nothing else is ever imported."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from leakscope.errors import InputError, refusal


def import_code(place: str) -> ModuleType:
    """A module by the path of its file or by its dotted name, as `python` run in its folder would see it."""
    _find(place)
    with their_code(place), seeded():
        return _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)


def code_fingerprint(place: str) -> str:
    """16 hex digits of the file that `import_code` would import; what that imports in turn does not count."""
    return hashlib.sha256(_find(place).read_bytes()).hexdigest()[:16]


@contextmanager
def their_code(what: str) -> Iterator[None]:
    """Whatever goes wrong in code that is not ours becomes a problem that names the line; what it prints is no JSON."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except InputError:
        raise
    except Exception as error:
        why, fix = "leakscope must run this code before the audit", f"see {_place_of(error)}"
        raise refusal(f"{what} fails: {type(error).__name__}: {error}", why=why, fix=fix) from error


@contextmanager
def seeded() -> Iterator[None]:
    """The same random numbers whenever a file is imported: every process of a run must find the same client there."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - it is the state that others draw from
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _place_of(error: Exception) -> str:
    """The innermost line that is neither ours nor a library's, else the innermost."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    libraries = (str(Path(__file__).parent), "site-packages", "<frozen", str(Path(importlib.__file__).parent))
    theirs = [frame for frame in frames if not any(library in frame.filename for library in libraries)]
    last = (theirs or frames)[-1]
    return f"{last.filename}, line {last.lineno}: {last.line}"


def _find(place: str) -> Path:
    """The file of the module, whose folder (for a dotted name: the present one) is searched for imports from now on."""
    path = Path(place)
    folder = str(path.resolve().parent if place.endswith(".py") else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if place.endswith(".py"):
        if not path.is_file():
            raise refusal(f"there is no file {path}", fix="give the path of a Python file")
        return path
    try:
        with their_code(place):  # which imports the packages around it
            spec = importlib.util.find_spec(place)
    except InputError as error:
        if not isinstance(error.__cause__, ImportError | ValueError):
            raise
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        fix = "run from the folder that holds it, or install it"
        raise refusal(f"cannot import {place!r}: there is no file of that module", fix=fix)
    return Path(spec.origin)


def _import_file(path: Path) -> ModuleType:
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"leakscope_user_{path.stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
