"""FEMNIST as it is handed out: LEAF's JSON, Hugging Face's parquet, TensorFlow Federated's SQLite."""

from __future__ import annotations

import importlib
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from leakscope.data.dataset import Array, Samples
from leakscope.data.pixels import Pixels, eight_bit, square
from leakscope.data.protobuf import parse_example
from leakscope.errors import refusal, refusing

CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SHARE = 0.05
"""Share of the writers that is read where all are there: the sampling fraction of the paper's baselines."""

REMAKE = "run LEAF's data/femnist/preprocess.sh again, or fetch the data"


@dataclass(frozen=True, eq=False)
class _Group:
    """One writer's samples in one split: pixels (k, 784) in [0, 1] where 1 is paper, labels (k,)."""

    writer: str
    split: int
    pixels: Array
    labels: Array


def read_leaf(paths: Sequence[Path]) -> Samples:
    """LEAF's `train/*.json` and `test/*.json`: user_data[writer] = {x: rows of 784 in [0, 1], y: labels}."""
    tests = sorted((paths[0].parent.parent / "test").glob("*.json"))
    files = [*((0, path) for path in paths), *((1, path) for path in tests)]
    return _samples([group for split, path in files for group in _leaf_groups(path, split)])


def _leaf_groups(path: Path, split: int) -> list[_Group]:
    with refusing(
        f"{path} is not LEAF's FEMNIST", OSError, ValueError, KeyError, TypeError, AttributeError, fix=REMAKE
    ):
        users = json.loads(path.read_bytes())["user_data"]
        groups = [
            _Group(str(name), split, np.array(user["x"], dtype=np.float32), np.array(user["y"], dtype=np.int64))
            for name, user in users.items()
        ]
        for group in groups:
            if group.pixels.shape != (len(group.labels), 784):
                raise ValueError(f"writer {group.writer} has no 784 pixels and one label per sample")
            if not ((group.pixels >= 0) & (group.pixels <= 1)).all():
                raise ValueError(f"writer {group.writer} has pixels outside [0, 1]")
    return groups


def read_parquet(paths: Sequence[Path]) -> Samples:
    """Hugging Face's `flwrlabs/femnist`: image, writer_id, character. Needs pyarrow; 5 % of the writers."""
    found = "FEMNIST is there as parquet files, and pyarrow is not installed"
    fix = "pip install pyarrow, or `leakscope data fetch femnist` for a form that needs nothing"
    with refusing(found, ImportError, fix=fix):
        parquet = importlib.import_module("pyarrow.parquet")
    fix = "download its data/*.parquet again, or `leakscope data fetch femnist`"
    broken = (OSError, ValueError, KeyError, TypeError, NotImplementedError)  # pyarrow's own derive from these
    with refusing(f"{paths[0]} is not Hugging Face's flwrlabs/femnist", *broken, fix=fix):
        table = parquet.read_table(list(map(str, paths)), columns=["image", "writer_id", "character"])
        writers = np.array(table["writer_id"].to_pylist())
        kept = np.flatnonzero(np.isin(writers, some_writers(writers.tolist())))
        chosen = table.take(kept)
        images = np.stack([_png(cell) for cell in chosen["image"].to_pylist()])
        labels = np.array(chosen["character"].to_pylist())
    return Samples(images, labels, writers=writers[kept], label_names=CHARACTERS)


def _png(cell: Mapping[str, Any]) -> Pixels:
    with Image.open(io.BytesIO(cell["bytes"])) as image:
        grey = eight_bit(image, grey=True)
    return np.asarray(grey if grey.size == (28, 28) else square(grey, 28))


def read_sqlite(paths: Sequence[Path]) -> Samples:
    """TensorFlow Federated's `emnist_all.sqlite`, made by LEAF's rules: reads 5 % of the writers."""
    found, address = f"{paths[0]} is not TensorFlow Federated's EMNIST", f"{paths[0].resolve().as_uri()}?mode=ro"
    with (
        refusing(found, sqlite3.Error, ValueError, fix="leakscope data fetch femnist"),
        closing(sqlite3.connect(address, uri=True)) as database,
    ):
        return _samples(list(_sqlite_groups(database)))


def _sqlite_groups(database: sqlite3.Connection) -> Iterator[_Group]:
    names = database.execute("SELECT DISTINCT client_id FROM client_metadata WHERE split_name = 'all_train'")
    query = "SELECT serialized_example_proto FROM examples WHERE split_name = ? AND client_id = ? ORDER BY rowid"
    for writer in some_writers(name for (name,) in names.fetchall()):
        for split, split_name in enumerate(("all_train", "all_test")):
            examples = [parse_example(message) for (message,) in database.execute(query, (split_name, writer))]
            if any(len(e.get("pixels", ())) != 784 or len(e.get("label", ())) != 1 for e in examples):
                raise ValueError(f"an example of writer {writer} has no 784 `pixels` and one `label`")
            if examples:
                pixels, labels = (np.stack([e[key] for e in examples]) for key in ("pixels", "label"))
                yield _Group(writer, split, pixels, labels[:, 0])


def some_writers(names: Iterable[str]) -> list[str]:
    """5 % of the writers, at least one: always the same ones, in the order of their names."""
    every = sorted(set(names))
    count = max(1, round(SHARE * len(every)))
    kept: list[str] = np.random.default_rng(0).permutation(every)[:count].tolist()
    return sorted(kept)


def _samples(groups: Sequence[_Group]) -> Samples:
    """Groups one after the other, pixels as (n, 28, 28) uint8."""
    if not groups:
        raise refusal("there is no writer in FEMNIST's files", fix="leakscope data fetch femnist")
    sizes = [len(group.labels) for group in groups]
    unit = np.concatenate([group.pixels for group in groups])
    return Samples(
        np.rint(unit * 255).astype(np.uint8).reshape(-1, 28, 28),
        np.concatenate([group.labels for group in groups]),
        writers=np.repeat([group.writer for group in groups], sizes),
        splits=np.repeat([group.split for group in groups], sizes),
        label_names=CHARACTERS,
    )
