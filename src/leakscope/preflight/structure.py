"""Keys, shapes, types: whether the file can be an update of this model at all."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from leakscope.errors import Finding, InputError, Problem, error, warning
from leakscope.observation.firewall import check_update
from leakscope.observation.update_file import RecordedUpdate
from leakscope.types import ClientBatch
from leakscope.victims import MODELS, WRAPPERS, Victim, build_victim

PREFIXES = (*WRAPPERS, "model.", "net.")
"""The last ones are what people call the model inside a wrapper of their own."""
LOSS = "cross_entropy"
SAME = "give the truth file of the same client and round"


def structure(recorded: RecordedUpdate, victim: Victim, truth: ClientBatch | None = None) -> list[Finding]:
    """Everything that keeps this update from being attacked with this model, or scored against this truth."""
    whole = _prefix(recorded, victim) or _class_count(recorded, victim) or _misplaced(recorded, victim)
    whole = whole or _other_model(recorded, victim)
    found = [whole] if whole else [Finding("error", "tensors", problem) for problem in _problems(recorded, victim)]
    return [*found, *_truth(recorded, truth), *_loss(recorded), *_buffers(recorded, victim)]


def _problems(recorded: RecordedUpdate, victim: Victim) -> tuple[Problem, ...]:
    try:
        check_update(recorded.update, victim)
    except InputError as refused:
        return refused.problems
    return ()


def _prefix(recorded: RecordedUpdate, victim: Victim) -> Finding | None:
    names = recorded.update.delta
    for prefix in PREFIXES:
        if names.keys() & victim.sizes.keys() or not all(name.startswith(prefix) for name in names):
            continue
        if {name.removeprefix(prefix) for name in names} == victim.sizes.keys():
            found = f"every tensor name starts with {prefix!r}"
            why = "the state of a wrapper was recorded (Opacus, DataParallel, torch.compile), not that of the model"
            return error("prefix", found, why=why, fix=f"record the wrapped model's own tensors: drop {prefix!r}")
    return None


def _class_count(recorded: RecordedUpdate, victim: Victim) -> Finding | None:
    """Only the first dimension of the last tensors differs, and it is the class count of the victim."""
    sizes = {name: value.shape for name, value in recorded.update.delta.items()}
    if sizes.keys() != victim.sizes.keys():
        return None
    odd = [name for name, size in victim.sizes.items() if sizes[name] != size]
    rows = {sizes[name][0] for name in odd if len(sizes[name])}
    if len(rows) != 1 or any(victim.sizes[name] != (victim.classes, *sizes[name][1:]) for name in odd):
        return None
    (count,) = rows
    found = f"the file says {victim.classes} classes, its last layer has {count}"
    return error("classes", found, fix=f"record it with classes={count}")


def _misplaced(recorded: RecordedUpdate, victim: Victim) -> Finding | None:
    """All parameters are there, and more."""
    extra = [name for name in recorded.update.delta if name not in victim.sizes]
    if not extra or victim.sizes.keys() - recorded.update.delta.keys():
        return None
    buffers = [name for name in extra if name in victim.buffers()]
    fix = f"store the trained parameters of {victim.name} alone, without optimiser state or metrics"
    if len(buffers) == len(extra):
        fix = "store batch-norm statistics and counters under buffers/"
    found = f"{len(extra)} tensors are no parameters of {victim.name}: {', '.join(extra[:3])}"
    return error("extra-keys", found, fix=fix)


def _other_model(recorded: RecordedUpdate, victim: Victim) -> Finding | None:
    sizes = {name: value.shape for name, value in recorded.update.delta.items()}
    same = sum(sizes.get(name) == size for name, size in victim.sizes.items())
    if same == len(victim.sizes) or (2 * same > len(victim.sizes) and sizes.keys() == victim.sizes.keys()):
        return None
    fits = [name for name in MODELS if name != victim.name and _sizes(name, recorded) == sizes]
    found = f"this is not an update of {victim.name}: {same} of its {len(victim.sizes)} tensors are in the file"
    fix = f"it fits --model {fits[0]}" if fits else "name the model that was trained: --model package.module:factory"
    return error("model", found, fix=fix)


def _sizes(name: str, recorded: RecordedUpdate) -> dict[str, torch.Size] | None:
    try:
        return build_victim(name, shape=recorded.shape, classes=recorded.classes).sizes
    except (InputError, RuntimeError):
        return None


def _truth(recorded: RecordedUpdate, truth: ClientBatch | None) -> Iterator[Finding]:
    if truth is None:
        return
    wanted, given = (recorded.update.n, *recorded.shape), tuple(truth.images.shape)
    soft = truth.labels.dim() == 2
    fits = truth.labels.shape[1] == recorded.classes if soft else bool((truth.labels // recorded.classes == 0).all())
    if given != wanted:
        yield error("truth", f"the truth file holds images of {given}, the update is of {wanted}", fix=SAME)
    if not fits:
        yield error("truth", f"the truth file has labels of other than {recorded.classes} classes", fix=SAME)


def _loss(recorded: RecordedUpdate) -> Iterator[Finding]:
    if recorded.loss != LOSS:
        why = "the attacks differentiate the client's own loss: softmax cross-entropy"
        fix = f"record loss={LOSS!r} if that is what it was; no other loss can be attacked"
        yield error("loss", f"the client trained with {recorded.loss!r}", why=why, fix=fix)


def _buffers(recorded: RecordedUpdate, victim: Victim) -> Iterator[Finding]:
    wanted, given = victim.buffers(), recorded.update.buffers
    missing = [name for name, value in wanted.items() if name not in given or given[name].shape != value.shape]
    if missing and recorded.update.training.mode == "eval":
        found = f"{len(missing)} buffers of {victim.name} are not in the file: {missing[0]}"
        why = "in eval mode the batch norms use their stored statistics; those of a fresh model are used instead"
        yield warning("buffers", found, why=why, fix="store them under buffers/<name>")
