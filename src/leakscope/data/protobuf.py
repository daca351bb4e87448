"""The few lines of protocol buffers that a tf.train.Example of numbers needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leakscope.data.dataset import Array

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


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
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _fields(message: bytes, *, only: int | None = None) -> Iterator[tuple[int, bytes | int]]:
    """(field number, content) of each field, optionally of one number alone."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        content: bytes | int
        if wire == VARINT:
            content, at = _varint(message, at)
        elif wire in (LENGTH, FIXED32, FIXED64):
            size, at = _varint(message, at) if wire == LENGTH else ({FIXED32: 4, FIXED64: 8}[wire], at)
            content, at = message[at : at + size], at + size
            if at > len(message):
                raise ValueError("the message ends in the middle of a field")
        else:
            raise ValueError(f"wire type {wire} is unknown")
        if only in (None, number):
            yield number, content


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(message):
            raise ValueError("the message ends in the middle of a number")
        byte = message[at]
        value |= (byte & 0x7F) << (7 * place)
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number is longer than 64 bits")


def _bytes(content: bytes | int) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number stands where a message belongs")
    return content
