"""TensorFlow Federated's EMNIST archive in small: a SQLite file of serialized examples."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable
from pathlib import Path


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def example(pixels: Iterable[float], label: int) -> bytes:
    numbers = list(pixels)
    floats = field(2, field(1, struct.pack(f"<{len(numbers)}f", *numbers)))
    integers = field(3, field(1, varint(label)))
    entries = (("pixels", floats), ("label", integers))
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature)) for name, feature in entries))


def write_sqlite(path: Path, writers: int, *, train: int = 3) -> None:
    """The published schema: tables `examples` and `client_metadata`."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
    database.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
    for writer in range(writers):
        name = f"f{writer:04d}_00"
        for split, count in (("all_train", train), ("all_test", 1), ("digits_only_train", 1)):
            database.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (name, split, count))
            rows = [(split, name, example([i / 10] * 784, (writer + i) % 62)) for i in range(count)]
            database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
