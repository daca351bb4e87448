"""The update file: w0, the visible update and a JSON header in safetensors, with no pickle anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakscope.errors import InputError, Problem
from leakscope.runs.atomic import writing
from leakscope.types import LocalTraining, Normalisation, Update, Weights

FORMAT = 1
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
    for key, value in tensors.items():
        prefix, _, name = key.partition("/")
        if prefix in groups:
            groups[prefix][name] = value
    problems = [*_header_problems(header), *_tensor_problems(groups["w0"], groups["update"])]
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
        raise InputError(
            Problem(
                f"{path.name} is not a whole safetensors file: {error}",
                why="leakscope reads nothing else from others: a pickle could run code",
                fix="write it with leakscope.write_update, the Flower recorder or `leakscope simulate`",
            )
        ) from error
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


def _header_problems(header: Mapping[str, Any]) -> list[Problem]:
    wanted = ("format", "model", "shape", "classes", "n", "training")
    missing = [name for name in wanted if name not in header]
    problems = [
        Problem(f"the header lacks {name!r}", fix="record it again with a current leakscope") for name in missing
    ]
    if header.get("format", FORMAT) != FORMAT:
        problems.append(Problem(f"format {header['format']} is not {FORMAT}", fix="use a matching leakscope version"))
    return problems


def _tensor_problems(w0: Weights, delta: Weights) -> list[Problem]:
    problems = []
    if not delta:
        problems.append(Problem("there is no tensor under update/", fix="store w0/<name> and update/<name>"))
    if odd := sorted(w0.keys() ^ delta.keys()):
        problems.append(Problem(f"w0 and update differ in {', '.join(odd[:5])}", fix="store both for every parameter"))
    return problems
