"""CIFAR-10 and CIFAR-100 in their official form: Python pickles, read without running what is in them."""

from __future__ import annotations

import pickle
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leakscope.data.dataset import Array, Samples
from leakscope.errors import refusal, refusing

BROKEN = (
    *(pickle.UnpicklingError, OSError, EOFError, ValueError, TypeError, AttributeError),
    *(KeyError, IndexError, ImportError, MemoryError),
)
"""What a damaged or hostile pickle makes the unpickler raise."""


def read_cifar100(paths: Sequence[Path]) -> Samples:
    """`cifar-100-python/train`, with `test` and `meta` beside it where they exist. Fine labels, 0 .. 99."""
    return _read(paths, label_key=b"fine_labels", name_key=b"fine_label_names", test="test", meta="meta")


def read_cifar10(paths: Sequence[Path]) -> Samples:
    """`cifar-10-batches-py/data_batch_*`, with `test_batch` and `batches.meta` where they exist."""
    return _read(paths, label_key=b"labels", name_key=b"label_names", test="test_batch", meta="batches.meta")


def _read(paths: Sequence[Path], *, label_key: bytes, name_key: bytes, test: str, meta: str) -> Samples:
    folder = paths[0].parent
    tests = [folder / test] if (folder / test).is_file() else []
    parts = [_batch(path, label_key) for path in (*paths, *tests)]
    splits = np.repeat([0] * len(paths) + [1] * len(tests), [len(labels) for _, labels in parts])
    names = unpickle(folder / meta).get(name_key, []) if (folder / meta).is_file() else []
    return Samples(
        np.concatenate([images for images, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
        splits=splits,
        label_names=tuple(name.decode("latin-1") for name in names if isinstance(name, bytes)),
    )


def _batch(path: Path, label_key: bytes) -> tuple[Array, Array]:
    """Rows of 3072 bytes, red then green then blue -> (n, 32, 32, 3); labels (n,)."""
    content = unpickle(path)
    data, labels = content.get(b"data"), content.get(label_key)
    if not (_is_rows(data) and _is_labels(labels) and len(data) == len(labels)):
        why = f"`data` (n, 3072) of bytes and n `{label_key.decode()}` are expected"
        raise refusal(f"{path} is not a CIFAR batch", why=why, fix="unpack the official archive again")
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(labels)


def _is_rows(data: object) -> typing.TypeGuard[Array]:
    return isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2 and data.shape[1] == 3072


def _is_labels(labels: object) -> typing.TypeGuard[list[int]]:
    return isinstance(labels, list) and bool(labels) and all(isinstance(label, int) for label in labels)


def unpickle(path: Path) -> dict[typing.Any, typing.Any]:
    """A pickled dict of arrays, lists, bytes and numbers. What names other code is refused, not run."""
    why = "only plain data is accepted: a pickle that names other code could do anything"
    fix = "unpack the official archive again (leakscope data fetch gets it and checks it)"
    with refusing(f"{path} cannot be read", *BROKEN, why=why, fix=fix), path.open("rb") as file:
        content = _PlainData(file, encoding="bytes").load()
    if not isinstance(content, dict):
        raise refusal(f"{path} holds a {type(content).__name__}, not a dict")
    return content


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in old pickle protocols. Other codecs are not needed and not offered."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"codec {encoding!r} is not allowed")
    return text.encode("latin-1")


_RECONSTRUCT = typing.cast(Callable[..., object], np.empty(0).__reduce__()[0])
_ALLOWED: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        """The few names that arrays and bytes need, looked up here so that nothing is imported either."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no plain data")
        return _ALLOWED[module, name]
