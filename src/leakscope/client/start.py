"""Where the global model stands when the client receives it: fresh, trained, or read from a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from leakscope.data import Dataset
from leakscope.data.clients import contents, to_unit
from leakscope.data.others import draw_others
from leakscope.errors import refuse, refusing
from leakscope.options import Range, build, out_of_range, parse_call
from leakscope.types import ClientBatch, stream
from leakscope.victims import Victim, differences

WITHOUT_FILE = ("fresh", "own", "recorded")
"""w0 is drawn from the seed, comes with a client of the auditor's own, or lies in the update file."""
GIVE = "give a safetensors file, `fresh` or `pretrain:epochs=3`"
POSITIVE = Range("(0, inf)")


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """SGD with momentum on images that no audited client holds."""

    epochs: Annotated[int, POSITIVE] = 1
    lr: Annotated[float, POSITIVE] = 0.02
    batch_size: Annotated[int, POSITIVE] = 32
    reserve: Annotated[int, Range("[0, inf)", 3)] = 0
    """Other images of a class that are kept out as well for each of the client's in it: they can stand in a line-up."""

    def __post_init__(self) -> None:
        refuse(out_of_range(self, kind="--w0 pretrain", advice="--w0 pretrain:{name}={example}"))


def starting_weights(
    choice: str, victim: Victim, dataset: Dataset, *, avoid: ClientBatch, seed: int
) -> dict[str, Tensor]:
    """`fresh`, `pretrain:epochs=k` or the path of a safetensors file with one tensor per parameter."""
    if choice == "fresh":
        return victim.weights()
    if (settings := _pretraining(choice)) is not None:
        return pretrain(settings, victim, dataset, avoid=avoid, seed=seed)
    return read_weights(Path(choice), victim)


def fingerprint(choice: str) -> str | None:
    """16 hex digits of the file that a choice of w0 names; None where it names none. Bad choices are refused."""
    if choice in WITHOUT_FILE or _pretraining(choice) is not None:
        return None
    with refusing(f"cannot read w0 from {choice}", OSError, fix=GIVE):
        return hashlib.sha256(Path(choice).read_bytes()).hexdigest()[:16]


def _pretraining(choice: str) -> Pretrain | None:
    call = parse_call(choice) if choice.startswith("pretrain") else None
    return build(Pretrain, dict(call.options), kind="pretrain") if call and call.name == "pretrain" else None


def pretrain(
    settings: Pretrain, victim: Victim, dataset: Dataset, *, avoid: ClientBatch, seed: int
) -> dict[str, Tensor]:
    """Train the victim on the data set without the client's own images and those reserved for its line-up."""
    kept = draw_others(dataset, avoid, seed=seed, each=settings.reserve, references=0).others
    images, labels = others(dataset, avoid, also=to_unit(dataset.images[kept]))
    order = stream(seed, "pretraining order")
    w = {name: value.requires_grad_() for name, value in victim.weights().items()}
    optimiser = torch.optim.SGD(w.values(), lr=settings.lr, momentum=0.9)
    for _ in range(settings.epochs):
        for chosen in torch.split(torch.randperm(len(labels), generator=order), settings.batch_size):
            x = dataset.normalisation.apply(images[chosen].float() / 255)
            optimiser.zero_grad()
            functional.cross_entropy(victim.call(w, {}, x), labels[chosen]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return {name: value.detach() for name, value in w.items()}


def reserved(choice: str) -> int | None:
    """How many others per image nothing was trained on: what `pretrain` reserves, or any number (None)."""
    settings = _pretraining(choice)
    return None if settings is None else settings.reserve


def others(dataset: Dataset, avoid: ClientBatch, *, also: Tensor) -> tuple[Tensor, Tensor]:
    """(n, C, H, W) uint8 and (n,) labels of all images that are neither the client's nor among `also`, by content."""
    images, taken = dataset.pixels(), {*contents(avoid.images), *contents(also)}
    free = [place for place, content in enumerate(contents(images)) if content not in taken]
    return images[free], torch.from_numpy(dataset.labels)[free]


def read_weights(path: Path, victim: Victim) -> dict[str, Tensor]:
    """Weights by parameter name from a safetensors file, checked against the victim."""
    with refusing(f"cannot read w0 from {path}", OSError, SafetensorError, fix=GIVE):
        tensors = load_file(path)
    refuse(differences(tensors, victim, what=f"w0 in {path.name}"))
    return {name: tensors[name].float() for name in victim.sizes}
