"""From an update file to what the attacker sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from leakscope.cells.scene import Scene, Truth, check_model
from leakscope.cells.spec import Cell, Recorded
from leakscope.errors import Finding, InputError, Problem
from leakscope.observation.firewall import Observation, guess, observe
from leakscope.observation.update_file import RecordedUpdate, read_truth, read_update
from leakscope.preflight import examine, refuse_errors
from leakscope.types import ClientBatch, Knowledge, Update
from leakscope.victims import MODELS, Victim, build_victim, restore_buffers


@dataclass(frozen=True)
class Opened:
    """A recorded update with the model it belongs to, the truth where it is given, and what was found in it."""

    recorded: RecordedUpdate
    victim: Victim
    truth: Truth | None
    findings: tuple[Finding, ...]

    @property
    def update(self) -> Update:
        """Tensors in the model's own order and in single precision.

        Files sort them by name, and sums depend on the order in the last digit.
        """
        update = self.recorded.update
        return replace(
            update,
            w0={name: update.w0[name].float() for name in self.victim.sizes},
            delta={name: update.delta[name].float() for name in self.victim.sizes},
        )


def open_recorded(path: Path, model: str, truth_file: Path | None = None) -> Opened:
    """Read an update file and its truth file, and look at them before any attack."""
    recorded = read_update(path)
    victim = build_victim(model, shape=recorded.shape, classes=recorded.classes)
    restore_buffers(victim, recorded.update.buffers)
    truth = None
    if truth_file is not None:
        images, labels, candidates, name = read_truth(truth_file)
        normalisation = recorded.normalisation or guess(recorded.shape[0])
        truth = Truth(ClientBatch(images, labels, recorded.classes, normalisation, name), candidates)
    findings = examine(recorded, victim, truth=None if truth is None else truth.batch)
    return Opened(recorded, victim, truth, findings)


def check_file(path: Path, *, model: str | None = None, truth_file: Path | None = None) -> tuple[Finding, ...]:
    """Everything that a look at an update file brings up; a file that cannot be read is an error like any other."""
    try:
        return open_recorded(path, recorded_model(model, read_update(path).model), truth_file).findings
    except InputError as refused:
        return tuple(Finding("error", "file", problem) for problem in refused.problems)


def recorded_scene(cell: Cell, source: Recorded) -> Scene:
    """What a recorded update shows; scored only where the truth file is given."""
    truth_file = Path(source.truth_file) if source.truth_file else None
    files = [Path(place) for place in (source.update_file, *source.more_updates)]
    recorded = read_update(files[0])
    check_model(cell, recorded.shape, recorded.classes)
    rounds = [open_recorded(path, str(cell.client.model), truth_file) for path in files]
    findings = tuple(dict.fromkeys(finding for opened in rounds for finding in opened.findings))
    refuse_errors(findings)
    first, *more = (_observed(cell, path.name, opened) for path, opened in zip(files, rounds, strict=True))
    return Scene(replace(first, more=tuple(more)), rounds[0].truth, rounds[0].update, findings)


def _observed(cell: Cell, name: str, opened: Opened) -> Observation:
    recorded, labels = opened.recorded, opened.recorded.labels if opened.truth is None else opened.truth.batch.labels
    if labels is None and cell.attack.labels in ("known", "counts"):
        raise InputError(
            Problem(
                f"{name} contains no labels, but --labels {cell.attack.labels} needs them",
                fix="--labels recovered, or give the truth file with --truth",
            )
        )
    granted = Knowledge(
        labels=cell.attack.labels, normalisation=recorded.normalisation is not None, auxiliary=cell.attack.auxiliary
    )
    return observe(
        opened.update,
        opened.victim,
        knowledge=granted,
        normalisation=recorded.normalisation or guess(recorded.shape[0]),
        labels=labels,
        declared_defense=recorded.defense,
    )


def different_clients(files: list[Path]) -> Iterator[Problem]:
    """Reasons why files cannot be rounds of the same client with the same images."""
    first, *rest = (read_update(path) for path in files)
    if not rest:
        yield Problem("--combine with a single file", fix="give two or more rounds of the same client")
    for path, other in zip(files[1:], rest, strict=True):
        facts = (
            ("model", first.model, other.model),
            ("images", first.update.n, other.update.n),
            ("image size", first.shape, other.shape),
            ("client", first.client, other.client),
            ("labels", *(None if r.labels is None else r.labels.tolist() for r in (first, other))),
        )
        for what, mine, theirs in facts:
            if mine != theirs:
                yield Problem(
                    f"{path.name} has another {what} than {files[0].name}",
                    why="rounds can only be combined where the client trained on the same images",
                    fix="leave --combine out: every file is then attacked on its own",
                )


def recorded_model(named: str | None, hint: str) -> str:
    """The model of a recorded update: what the auditor named, else the file's hint if it is one of ours."""
    if named is not None:
        return named
    if hint in MODELS:
        return hint
    raise InputError(
        Problem(
            f"the file says it was made with {hint!r}, which is code of its producer",
            why="code named inside a file is never imported",
            fix=f"--model {hint} if you trust it, or one of {', '.join(MODELS)}",
        )
    )
