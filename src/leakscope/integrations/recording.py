"""From the tensors that were sent and what is known about their training to an update file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakscope.errors import Problem, refuse
from leakscope.integrations.facts import EXAMPLES, Facts
from leakscope.integrations.watching import OPTIMIZERS, Seen, plain
from leakscope.observation.firewall import in_order
from leakscope.observation.update_file import RecordedUpdate, write_truth, write_update
from leakscope.types import LocalTraining, Update, Weights

Private = tuple[Tensor, ...]
"""(images in [0, 1], labels), and if there are any, images that the client does not hold: for scoring only.

People may give numpy arrays as well; `as_private` makes tensors of them.
"""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""Float or not, these are no weights; the rule for where no model was seen."""


def as_update(
    sent: Weights, back: Weights, facts: Facts, seen: Seen, notes: Mapping[str, object] | None = None
) -> Update:
    """w0 and w0 - wT of what training moves; statistics, counters and frozen tensors are kept apart as sent."""
    sent, back = _named(sent, seen), _named(back, seen)
    refuse([*_gaps(facts), *_differences(sent, back)])
    trainable = seen.trainable()
    moved = [name for name, value in sent.items() if name in back and _is_weight(name, value, trainable)]
    kept = [name for name in sent if name not in moved and (trainable is None or _is_state(name, seen))]
    half = {str(back[name].dtype).removeprefix("torch.") for name in moved} - {"float32"}
    return Update(
        w0={name: sent[name].float() for name in moved},
        delta={name: _difference(sent[name], back[name]) for name in moved},
        training=_training(facts),
        n=int(facts.n or 0),
        buffers={name: sent[name] for name in kept},
        buffers_after={name: back[name].reshape(sent[name].shape) for name in kept if name in back},
        notes={**(notes or {}), **({"sent_as": sorted(half)} if half else {})},
    )


def as_private(given: Sequence[Any]) -> Private:
    """Copies of what a person gave, in the types of a truth file: their own arrays are never touched."""
    images, labels, *rest = (_copied(part) for part in given)
    if labels.dim() == 2 or not labels.is_floating_point():
        labels = labels.float() if labels.dim() == 2 else labels.long()
    return images.float(), labels, *(part.float() for part in rest)


def write(path: Path, recorded: RecordedUpdate, private: Private | None) -> None:
    """NAME.update.safetensors, and before it NAME.truth.safetensors where the private side is given for scoring."""
    if private is not None:
        images, labels, *rest = private
        refuse(_private_problems(images, labels, recorded))
        place = path.with_name(path.name.replace(".update.", ".truth."))
        candidates = rest[0] if rest else images[:0]
        write_truth(place, images=images, labels=labels, candidates=candidates, dataset="recorded")
    write_update(path, recorded)


def as_recorded(
    update: Update,
    facts: Facts,
    *,
    producer: str,
    round_: int | None = None,
    client: str | None = None,
    tag: str | None = None,
    private: Private | None = None,
) -> RecordedUpdate:
    """The content of the file; the labels of `private` are told in ascending order, as `simulate` does."""
    assert facts.shape is not None
    assert facts.classes is not None
    channels, height, width = facts.shape
    return RecordedUpdate(
        update=update,
        model=facts.model or "unknown",
        shape=(channels, height, width),
        classes=facts.classes,
        normalisation=facts.normalisation,
        labels=None if private is None else in_order(private[1]),
        defense=facts.defense or "none",
        producer=producer,
        loss=facts.loss or "cross_entropy",
        round=round_,
        client=client,
        tag=tag,
    )


def _copied(part: Any) -> Tensor:
    return part.detach().clone() if isinstance(part, Tensor) else torch.from_numpy(np.array(part))


def _named(tensors: Weights, seen: Seen) -> dict[str, Tensor]:
    """Names without a wrapper's prefix; numbered tensors take the names of the model that was seen."""
    names = seen.state()
    if tensors and all(name.isdecimal() for name in tensors) and len(names) == len(tensors):
        return dict(zip(names, tensors.values(), strict=True))
    return plain(dict(tensors))


def _is_weight(name: str, value: Tensor, trainable: set[str] | None) -> bool:
    if trainable is not None:
        return name in trainable
    return value.is_floating_point() and name.rpartition(".")[2] not in STATISTICS


def _is_state(name: str, seen: Seen) -> bool:
    """A buffer or a frozen tensor; the second name of a tied tensor is neither."""
    assert seen.model is not None
    return any(name in plain(dict(named)) for named in (seen.model.named_parameters(), seen.model.named_buffers()))


def _difference(sent: Tensor, back: Tensor) -> Tensor:
    """w0 - wT in the wider type of the two and at least float32, then float32."""
    wide = torch.promote_types(torch.promote_types(sent.dtype, back.dtype), torch.float32)
    return (sent.to(wide) - back.reshape(sent.shape).to(wide)).float()


def _training(facts: Facts) -> LocalTraining:
    stated = {entry.name: getattr(facts, entry.name) for entry in fields(LocalTraining)}
    return LocalTraining(**{"mode": "train", **{name: value for name, value in stated.items() if value is not None}})


def _gaps(facts: Facts) -> list[Problem]:
    """What nobody saw or said, and what the format cannot hold."""
    missing = [name for name in ("shape", "classes", "n", "epochs", "batch_size", "lr") if getattr(facts, name) is None]
    why = "it was neither seen in the training loop nor declared nor part of the configuration"
    problems = [Problem(f"{name} is not known", why, fix=f"{name}={EXAMPLES[name]}") for name in missing]
    if facts.shape is not None and len(facts.shape) != 3:
        found = f"the model is fed {facts.shape}, not (C, H, W)"
        problems.append(Problem(found, why="attacks rebuild images", fix="shape=(1, 28, 28)"))
    if facts.optimizer not in (None, *OPTIMIZERS.values()):
        found = f"the client trains with {facts.optimizer}"
        problems.append(Problem(found, why="sgd and adam are covered", fix="use one of these"))
    return problems


def _differences(sent: Weights, back: Weights) -> list[Problem]:
    if not sent.keys() & back.keys():
        return [Problem("what was sent and what came back share no tensor", fix="send weights under the same names")]
    return [
        Problem(f"{name!r} was sent as {tuple(sent[name].shape)} and came back as {tuple(back[name].shape)}")
        for name in sent.keys() & back.keys()
        if sent[name].numel() != back[name].numel()
    ]


def _private_problems(images: Tensor, labels: Tensor, recorded: RecordedUpdate) -> list[Problem]:
    problems = []
    n, classes = recorded.update.n, recorded.classes
    if images.shape != (expected := (n, *recorded.shape)):
        problems.append(Problem(f"the truth is {tuple(images.shape)}, the client trained on {expected}"))
    if labels.shape not in ((n,), (n, classes)) or (labels.dim() == 1 and labels.is_floating_point()):
        found = f"the truth has labels of shape {tuple(labels.shape)} and {labels.dtype} for {n} images"
        problems.append(Problem(found, fix=f"({n},) whole numbers, or ({n}, {classes}) soft targets"))
    if images.numel() and not (float(images.min()) >= 0 and float(images.max()) <= 1):
        problems.append(Problem("the truth has values outside [0, 1]", fix="give the images before normalisation"))
    return problems
