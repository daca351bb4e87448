"""The update file: w0, the visible update and a JSON header in safetensors, with no pickle anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic_core import ErrorDetails
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from leakscope.errors import InputError, Problem, refusal, refuse, unknown
from leakscope.files import writing
from leakscope.settings import Declared, declared
from leakscope.types import LocalTraining, Normalisation, Update, Weights

FORMAT = 1
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
"""How pickles begin, and the archives of torch.save around them."""
MOST = 10**6
"""Of any number in a header: more is a mistake, and overflows somewhere."""
HEADER = "leakscope"
PLAIN = ("model", "classes", "loss", "defense", "producer", "round", "client", "tag")
"""What the header and what was recorded call the same."""
GROUPS = ("w0", "update", "buffers", "buffers_after")
"""Prefixes of tensor names; the last two, batch-norm statistics and the like, may be missing."""
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
    tag: str | None = None
    """What tells it from other updates of the same client and round: `sent`, `trained`."""


def write_update(path: Path, recorded: RecordedUpdate) -> None:
    """Write `recorded` to `path` atomically; integer buffers keep their own prefix and type."""
    update = recorded.update
    tensors = {f"w0/{name}": value for name, value in update.w0.items()}
    tensors |= {f"update/{name}": value for name, value in update.delta.items()}
    tensors |= {f"buffers/{name}": value for name, value in update.buffers.items()}
    tensors |= {f"buffers_after/{name}": value for name, value in update.buffers_after.items()}
    header = {
        "format": FORMAT,
        "shape": list(recorded.shape),
        "n": update.n,
        "training": asdict(update.training),
        "normalisation": asdict(recorded.normalisation) if recorded.normalisation else None,
        "labels": None if recorded.labels is None else recorded.labels.tolist(),
        "notes": {name: update.notes[name] for name in PUBLIC_NOTES if name in update.notes},
        **{name: getattr(recorded, name) for name in PLAIN if name != "tag" or recorded.tag},
    }
    _save(path, tensors, header)


def read_update(path: Path) -> RecordedUpdate:
    """Read and check an update file; every problem of it is reported at once."""
    tensors, said = read_tensors(path)
    groups = {
        group: {key.removeprefix(f"{group}/"): value for key, value in tensors.items() if key.startswith(f"{group}/")}
        for group in GROUPS
    }
    strange = {key: value for key, value in tensors.items() if key.partition("/")[0] not in GROUPS or "/" not in key}
    problems = [*_header_problems(said), *_tensor_problems(groups["w0"], groups["update"]), *_strange(strange)]
    refuse(Problem(f"{path.name}: {p.found}", p.why, p.fix) for p in problems)
    header = _Header.model_validate(said)
    scale = header.normalisation
    return RecordedUpdate(
        update=Update(
            w0=groups["w0"],
            delta=groups["update"],
            training=LocalTraining(**vars(header.training)),
            n=header.n,
            buffers=groups["buffers"],
            buffers_after=groups["buffers_after"],
            notes={name: header.notes[name] for name in PUBLIC_NOTES if name in header.notes},
        ),
        shape=(header.shape[0], header.shape[1], header.shape[2]),
        normalisation=None if scale is None else Normalisation(tuple(scale.mean), tuple(scale.std)),
        labels=None if header.labels is None else torch.tensor(header.labels),
        **{name: getattr(header, name) for name in PLAIN},
    )


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors and the JSON header of one of our safetensors files."""
    if not path.is_file():
        raise refusal(f"there is no file {path}", fix="give the path of an *.update.safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise InputError(_unreadable(path, error)) from error
    try:
        header = json.loads(metadata.get(HEADER, "null"))
    except (ValueError, RecursionError):  # no JSON, numbers beyond any use, or nested without end
        header = None
    if not isinstance(header, dict):
        fix = "write it with leakscope.write_update, not save_file"
        raise refusal(f"{path.name} has no leakscope header that can be read", fix=fix)
    return tensors, header


def write_truth(path: Path, *, images: Tensor, labels: Tensor, candidates: Tensor, dataset: str) -> None:
    """The private images for scoring, apart from the update: (N, C, H, W) in [0, 1], (N,), and (K, C, H, W)."""
    _save(path, {"images": images, "labels": labels, "candidates": candidates}, {"dataset": dataset})


def _save(path: Path, tensors: Weights, header: Mapping[str, Any]) -> None:
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with writing(path) as aside:
        save_file(copies, aside, {HEADER: json.dumps(header)})


def read_truth(path: Path) -> tuple[Tensor, Tensor, Tensor, str]:
    """(images, labels, held-out candidates, dataset name) of a truth file, once all of it can be scored against."""
    tensors, header = read_tensors(path)
    if not {"images", "labels", "candidates"} <= tensors.keys():
        raise refusal(f"{path.name} holds no private images", fix="use the file that `simulate` wrote")
    images, labels, candidates = (tensors[name] for name in ("images", "labels", "candidates"))
    refuse(Problem(f"{path.name}: {p.found}", p.why, p.fix) for p in _truth_problems(images, labels, candidates))
    labels = labels.float() if labels.is_floating_point() else labels.long()
    return images.float(), labels, candidates.float(), str(header.get("dataset", "unknown"))


def _truth_problems(images: Tensor, labels: Tensor, candidates: Tensor) -> Iterator[Problem]:
    for what, value in (("images", images), ("candidates", candidates)):
        if value.dim() != 4:
            yield Problem(f"{what} are {tuple(value.shape)}", fix=f"store {what} as (N, C, H, W)")
        if not value.is_floating_point():
            yield Problem(f"{what} are {value.dtype}", fix=f"store {what}.float() / 255")
        elif not bool(((value.float() >= 0) & (value.float() <= 1)).all()):
            yield Problem(f"{what} have values outside of [0, 1]", fix=f"store {what} before normalisation")
    if candidates.shape[1:] != images.shape[1:]:
        sizes = f"{tuple(candidates.shape[1:])}, images {tuple(images.shape[1:])}"
        yield Problem(f"each of the candidates is {sizes}", fix="store candidates of the same data set")
    if labels.dim() != (2 if labels.is_floating_point() else 1) or labels.shape[:1] != images.shape[:1]:
        yield Problem(
            f"labels are {tuple(labels.shape)} {labels.dtype} for images {tuple(images.shape)}",
            fix="store labels as (N,) int64, or soft ones as (N, classes) float",
        )


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


Count = Annotated[int, Field(ge=1, le=MOST)]
Labels = list[int | list[float]] | None


class _Strict(BaseModel):
    """Who writes a header by hand gets types wrong, and a guess would be attacked as if it had been said."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


def _told(one: Declared) -> tuple[Any, Any]:
    """A training setting in the header: its type, default and bounds, and what to say instead of nonsense."""
    if one.choices:
        return one.hint, Field(one.default, description=" or ".join(one.choices))
    interval, (low, high) = one.option.within, one.option.range.ends
    bounds: Any = {"ge" if interval[0] == "[" else "gt": low, "le" if interval[-1] == "]" else "lt": high}
    number = f"{'a whole number' if one.kind is int else 'a number'} {one.option.range.broken(-math.inf)}"
    return one.hint, Field(one.default, description=f"{number}, e.g. {one.example or '0 for none'}", **bounds)


_SETTINGS: Any = {name: _told(one) for name, one in declared(LocalTraining).items()}
_Training = create_model("_Training", __base__=_Strict, __cls_kwargs__={"extra": "forbid"}, **_SETTINGS)


class _Normalisation(_Strict):
    mean: list[Annotated[float, Field(ge=-MOST, le=MOST)]]
    std: list[Annotated[float, Field(ge=1 / MOST, le=MOST)]]


class _Header(_Strict):
    """What a header says, and by `description` what to say instead of something that makes no sense."""

    format: Literal[1] = Field(description=f"{FORMAT}, as leakscope.write_update does")
    model: str = Field(description="a registered name, or package.module:factory")
    shape: list[Count] = Field(min_length=3, max_length=3, description="[channels, height, width], e.g. [3, 32, 32]")
    classes: int = Field(ge=2, le=MOST, description="the number of logits, e.g. 10")
    n: Count = Field(description="the number of private images, e.g. 50")
    training: _Training = Field(description=f"an object with {', '.join(_SETTINGS)}")  # type: ignore[valid-type]
    loss: str = Field("cross_entropy", description="cross_entropy")
    normalisation: _Normalisation | None = Field(None, description="a mean and a positive std for each channel")
    labels: Labels = Field(None, description="those of the n images of the same client; count classes from 0")
    defense: str = Field("none", description="as text, none for none")
    producer: str = Field("unknown", description="as text")
    round: Annotated[int, Field(ge=0)] | None = Field(None, description="a whole number from 0")
    client: str | None = Field(None, description="as text, or a whole number")
    tag: str | None = Field(None, description="as text, e.g. sent or trained")
    notes: dict[str, Any] = Field({}, description="an object, {} for none")

    @field_validator("client", mode="before")
    @classmethod
    def _as_text(cls, given: object) -> object:
        return str(given) if type(given) is int else given

    @field_validator("normalisation")
    @classmethod
    def _of_each_channel(cls, given: _Normalisation | None, info: ValidationInfo) -> _Normalisation | None:
        channels = info.data.get("shape", [None])[0]  # fields above that are wrong themselves are not there
        if given is not None and channels is not None and {len(given.mean), len(given.std)} != {channels}:
            raise ValueError(f"{len(given.mean)} mean and {len(given.std)} std for {channels} channels")
        return given

    @field_validator("labels")
    @classmethod
    def _of_each_image(cls, given: Labels, info: ValidationInfo) -> Labels:
        faults = () if given is None else _label_faults(given, info.data.get("n"), info.data.get("classes"))
        if said := "; ".join(faults):
            raise ValueError(said)
        return given


HINTS = {**_Training.model_fields, **_Header.model_fields}


def _label_faults(labels: list[int | list[float]], n: int | None, classes: int | None) -> Iterator[str]:
    if n is not None and len(labels) != n:
        yield f"{len(labels)} labels for n = {n} images"
    widths = {len(label) if isinstance(label, list) else None for label in labels}
    if len(widths) > 1 or (classes is not None and widths - {None, classes}):
        yield "neither a class nor a number per class for each image"
    hard = [label for label in labels if isinstance(label, int)]
    if classes is not None and hard and not 0 <= min(hard) <= max(hard) < classes:
        yield f"they go from {min(hard)} to {max(hard)} with {classes} classes"


def _header_problems(header: Mapping[str, Any]) -> list[Problem]:
    """One for each field: a list of a thousand labels has one mistake, not a thousand."""
    faults: dict[str, ErrorDetails] = {}
    try:
        _Header.model_validate(header)
    except ValidationError as error:
        for fault in error.errors():
            faults.setdefault(".".join(part for part in fault["loc"][:2] if isinstance(part, str)), fault)
    return [_header_problem(place, fault) for place, fault in faults.items()]


def _header_problem(place: str, fault: ErrorDetails) -> Problem:
    first, _, second = place.partition(".")
    if fault["type"] == "extra_forbidden":
        return unknown("training setting", second, _Training.model_fields)
    name = second if second in HINTS else first
    given = f", not {fault['input']!r:.40}" if isinstance(fault["input"], str | int | float | None) else ""
    said = fault["msg"].removeprefix("Value error, ")
    return Problem(f"the header's {place}: {said}{given}", fix=f"record {name}: {HINTS[name].description}")


def _strange(tensors: Mapping[str, Tensor]) -> list[Problem]:
    """Tensors under no prefix that is known."""
    fix = "store tensors of the model alone; settings as JSON"
    return [
        Problem(f"tensor {name!r} holds a pickle, which is never opened", fix=fix)
        if bytes(value.flatten()[:4].view(torch.uint8).tolist()).startswith(PICKLES)
        else Problem(f"tensor {name!r} is under none of {'/, '.join(GROUPS)}/", fix=fix)
        for name, value in tensors.items()
    ]


def _tensor_problems(w0: Weights, delta: Weights) -> list[Problem]:
    problems = []
    if not delta:
        problems.append(Problem("there is no tensor under update/", fix="store w0/<name> and update/<name>"))
    if odd := sorted(w0.keys() ^ delta.keys()):
        problems.append(Problem(f"w0 and update differ in {', '.join(odd[:5])}", fix="store both for every parameter"))
    return problems
