"""The update file: w0, the visible update and a JSON header in safetensors, with no pickle anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakscope.errors import InputError, Problem, unknown
from leakscope.runs.atomic import writing
from leakscope.types import LocalTraining, Normalisation, Update, Weights

FORMAT = 1
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
"""How pickles begin, and the archives of torch.save around them."""
AGAIN = "record it again with leakscope.write_update"
HEADER = "leakscope"
PUBLIC_NOTES = ("dpsgd", "sent_as")
"""What may be said beside an update: a guarantee is public, what else a defense noted stays with the client."""


@dataclass(frozen=True)
class RecordedUpdate:
    """What an update file holds: the update and what its producer declared."""

    update: Update
    model: str
    """A hint: a registered name or package.module:factory. Code is imported only when the auditor names it."""
    shape: tuple[int, int, int]
    classes: int
    normalisation: Normalisation | None
    labels: Tensor | None
    """(N,) int64 in ascending order, where the producer wrote them down."""
    defense: str
    producer: str
    loss: str = "cross_entropy"
    round: int | None = None
    client: str | None = None
    """Which client it was, in the producer's own words: a partition, a node, a seed."""


def write_update(path: Path, recorded: RecordedUpdate) -> None:
    """Write `recorded` to `path` atomically; integer buffers keep their own prefix and type."""
    update = recorded.update
    tensors = {f"w0/{name}": value for name, value in update.w0.items()}
    tensors |= {f"update/{name}": value for name, value in update.delta.items()}
    tensors |= {f"buffers/{name}": value for name, value in update.buffers.items()}
    header = {
        "format": FORMAT,
        "model": recorded.model,
        "shape": list(recorded.shape),
        "classes": recorded.classes,
        "n": update.n,
        "training": asdict(update.training),
        "loss": recorded.loss,
        "normalisation": asdict(recorded.normalisation) if recorded.normalisation else None,
        "labels": None if recorded.labels is None else recorded.labels.tolist(),
        "defense": recorded.defense,
        "producer": recorded.producer,
        "round": recorded.round,
        "client": recorded.client,
        "notes": {name: update.notes[name] for name in PUBLIC_NOTES if name in update.notes},
    }
    with writing(path) as aside:
        save_file(
            {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()},
            aside,
            {HEADER: json.dumps(header)},
        )


def read_update(path: Path) -> RecordedUpdate:
    """Read and check an update file; every problem of it is reported at once."""
    tensors, header = read_tensors(path)
    groups: dict[str, dict[str, Tensor]] = {"w0": {}, "update": {}, "buffers": {}}
    strange: dict[str, Tensor] = {}
    for key, value in tensors.items():
        prefix, _, name = key.partition("/")
        if prefix in groups:
            groups[prefix][name] = value
        else:
            strange[key] = value
    problems = [*_header_problems(header), *_tensor_problems(groups["w0"], groups["update"]), *_strange(strange)]
    if problems:
        raise InputError(*(Problem(f"{path.name}: {p.found}", p.why, p.fix) for p in problems))
    normalisation = header.get("normalisation")
    labels = header.get("labels")
    return RecordedUpdate(
        update=Update(
            w0=groups["w0"],
            delta=groups["update"],
            training=LocalTraining(**header["training"]),
            n=int(header["n"]),
            buffers=groups["buffers"],
            notes=header.get("notes") or {},
        ),
        model=str(header["model"]),
        shape=(int(header["shape"][0]), int(header["shape"][1]), int(header["shape"][2])),
        classes=int(header["classes"]),
        normalisation=Normalisation(tuple(normalisation["mean"]), tuple(normalisation["std"]))
        if normalisation
        else None,
        labels=None if labels is None else torch.tensor(labels),
        defense=str(header.get("defense", "none")),
        producer=str(header.get("producer", "unknown")),
        loss=str(header.get("loss", "cross_entropy")),
        round=header.get("round"),
        client=header.get("client"),
    )


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors and the JSON header of one of our safetensors files."""
    if not path.is_file():
        raise InputError(Problem(f"there is no file {path}", fix="give the path of an *.update.safetensors file"))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        header = json.loads(metadata.get(HEADER, "null"))
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(_unreadable(path, error)) from error
    if not isinstance(header, dict):
        raise InputError(
            Problem(
                f"{path.name} has no leakscope header",
                fix="write it with leakscope.write_update, not save_file",
            )
        )
    return tensors, header


def write_truth(path: Path, *, images: Tensor, labels: Tensor, candidates: Tensor, dataset: str) -> None:
    """The private images for scoring, apart from the update: (N, C, H, W) in [0, 1], (N,), and (K, C, H, W)."""
    tensors = {"images": images, "labels": labels, "candidates": candidates}
    with writing(path) as aside:
        save_file(
            {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()},
            aside,
            {HEADER: json.dumps({"dataset": dataset})},
        )


def read_truth(path: Path) -> tuple[Tensor, Tensor, Tensor, str]:
    """(images, labels, held-out candidates, dataset name) of a truth file."""
    tensors, header = read_tensors(path)
    if not {"images", "labels", "candidates"} <= tensors.keys():
        raise InputError(Problem(f"{path.name} holds no private images", fix="use the file that `simulate` wrote"))
    return tensors["images"], tensors["labels"], tensors["candidates"], str(header.get("dataset", "unknown"))


def _unreadable(path: Path, error: Exception) -> Problem:
    """Why a file cannot be read, by what it looks like."""
    with path.open("rb") as file:
        start = file.read(9)
    if start.startswith(PICKLES):
        return Problem(
            f"{path.name} is a pickle (torch.save, pickle.dump), not a safetensors file",
            why="reading a pickle can run code, so leakscope never does",
            fix="where you trust it, load it yourself and write it with leakscope.write_update",
        )
    if start.endswith(b"{"):  # eight bytes of length, then JSON: it began as one of ours
        return Problem(
            f"{path.name} is cut off: it has {path.stat().st_size} bytes, its header promises more",
            why="the copy or the training that wrote it was interrupted",
            fix="copy or record it again",
        )
    return Problem(
        f"{path.name} is not a whole safetensors file: {error}",
        why="leakscope reads nothing else from others: a pickle could run code",
        fix="write it with leakscope.write_update, the Flower recorder or `leakscope simulate`",
    )


class _Header(BaseModel):
    """What every header must say; what else it says is read where it is needed."""

    model_config = ConfigDict(strict=True)

    format: Literal[1]
    model: str
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=3, max_length=3)]
    classes: Annotated[int, Field(ge=2)]
    n: Annotated[int, Field(ge=1)]
    training: dict[str, int | float | str]
    normalisation: dict[Literal["mean", "std"], list[float]] | None = None
    labels: list[int] | list[list[float]] | None = None


def _header_problems(header: Mapping[str, Any]) -> list[Problem]:
    problems = []
    try:
        _Header.model_validate(header)
    except ValidationError as error:
        for fault in error.errors():
            place = ".".join(str(part) for part in fault["loc"][:2])
            problems.append(Problem(f"the header's {place!r}: {fault['msg']}", fix=AGAIN))
    training = header.get("training")
    if isinstance(training, dict):
        known = {entry.name for entry in fields(LocalTraining)}
        problems += [unknown("training setting", name, known) for name in training if name not in known]
    return problems


def _strange(tensors: Mapping[str, Tensor]) -> list[Problem]:
    """Tensors outside of w0/, update/ and buffers/."""
    problems = []
    for name, value in tensors.items():
        pickled = value.dtype in (torch.uint8, torch.int8) and bytes(value.flatten()[:2].tolist()).startswith(PICKLES)
        what = "holds a pickle, which is never opened" if pickled else "is none of w0/, update/ and buffers/"
        problems.append(Problem(f"tensor {name!r} {what}", fix="store tensors of the model alone; settings as JSON"))
    return problems


def _tensor_problems(w0: Weights, delta: Weights) -> list[Problem]:
    problems = []
    if not delta:
        problems.append(Problem("there is no tensor under update/", fix="store w0/<name> and update/<name>"))
    if odd := sorted(w0.keys() ^ delta.keys()):
        problems.append(Problem(f"w0 and update differ in {', '.join(odd[:5])}", fix="store both for every parameter"))
    return problems
