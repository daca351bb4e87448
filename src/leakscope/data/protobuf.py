"""The few lines of protocol buffers that a tf.train.Example of numbers needs."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from leakscope.data.dataset import Array

VARINT, LENGTH, FIXED = 0, 2, {1: 8, 5: 4}
"""Wire types: a number, a length and as many bytes, 8 bytes or 4 bytes."""


def parse_example(message: bytes) -> dict[str, Array]:
    """Example{1: Features{1: map<name, Feature{2: floats | 3: integers}>}} -> arrays by name.

    Raises ValueError where the bytes are no such message.
    """
    features: dict[str, Array] = {}
    for _, entries in _fields(message, only=1):
        for _, entry in _fields(_bytes(entries), only=1):
            parts = dict(_fields(_bytes(entry)))
            features[_bytes(parts.get(1, b"")).decode()] = _numbers(_bytes(parts.get(2, b"")))
    return features


def _numbers(feature: bytes) -> Array:
    for kind, content in _fields(feature):
        values = [value for _, value in _fields(_bytes(content), only=1)]
        if kind == 2:
            return np.frombuffer(b"".join(_bytes(value) for value in values), dtype="<f4")
        if kind == 3:
            return np.array([number for value in values for number in _varints(value)], dtype=np.int64)
    raise ValueError("a feature is neither floats nor integers")


def _varints(value: bytes | int) -> Iterator[int]:
    """Integers are either packed into one run of bytes or stand alone."""
    if isinstance(value, int):
        yield value
        return
    stream = io.BytesIO(value)
    while stream.tell() < len(value):
        yield _varint(stream)


def _fields(message: bytes, *, only: int | None = None) -> Iterator[tuple[int, bytes | int]]:
    """(field number, content) of each field, optionally of one number alone."""
    stream = io.BytesIO(message)
    while stream.tell() < len(message):
        number, wire = divmod(_varint(stream), 8)
        if wire not in (VARINT, LENGTH, *FIXED):
            raise ValueError(f"wire type {wire} is unknown")
        size = FIXED.get(wire) or _varint(stream)  # or the number itself
        content = size if wire == VARINT else stream.read(size)
        if isinstance(content, bytes) and len(content) < size:
            raise ValueError("the message ends in the middle of a field")
        if only in (None, number):
            yield number, content


def _varint(stream: io.BytesIO) -> int:
    """Seven bits of each byte, the lowest first; the last byte is below 128."""
    value = 0
    for place in range(10):
        byte = stream.read(1)
        if not byte:
            raise ValueError("the message ends in the middle of a number")
        value |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < 0x80:
            return value
    raise ValueError("a number is longer than 64 bits")


def _bytes(content: bytes | int) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number stands where a message belongs")
    return content
