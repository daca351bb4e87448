"""From a cell to what the attacker sees: simulate a client or read a recorded update. The truth stays on this side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from leakscope import data, victims
from leakscope.client import Client
from leakscope.data import Dataset
from leakscope.defenses import parse_defense
from leakscope.errors import InputError, Problem, refuse
from leakscope.fusion import fuse, other_seeds, parse_fusion
from leakscope.local_client import LocalClient, load_client
from leakscope.observation import Observation, differences, guess, observe
from leakscope.plugins import plugins_fingerprint
from leakscope.preflight import Finding, examine, refuse_errors, settings
from leakscope.start import fingerprint, read_weights, starting_weights
from leakscope.types import ClientBatch, Knowledge, Update
from leakscope.update_file import RecordedUpdate, read_truth, read_update
from leakscope.victims import MODELS, Shape, Victim, build_victim, restore_buffers

if TYPE_CHECKING:
    from leakscope.cell import Cell

TRIES = 50
"""Seeds to try for each client of a fused update; several of them may name the same writer."""
CANDIDATES = 1000
"""Held-out images among which an original must be the nearest to its reconstruction to count as identified."""


@dataclass(frozen=True)
class Truth:
    """The private side of a cell, for scoring only."""

    batch: ClientBatch
    candidates: Tensor
    """(K, C, H, W) in [0, 1]: images of the same source that the client does not hold."""


@dataclass(frozen=True)
class Scene:
    """What stands on the two sides of the firewall."""

    observation: Observation
    truth: Truth | None
    update: Update
    """As it left the client, after defense and fusion."""
    findings: tuple[Finding, ...] = ()
    """What the look before the attack brought up; none of them an error."""


def stage(cell: Cell, *, data_root: Path | None, own: LocalClient | None = None) -> Scene:
    """The scene of a cell."""
    _as_planned(f"the file {cell.w0}", fingerprint(cell.w0), cell.w0_fingerprint)
    _as_planned("a plugin", plugins_fingerprint(cell.plugins), cell.plugins_fingerprint)
    if cell.update_file:
        return recorded_scene(cell)
    if own is not None or cell.own:
        return own_scene(cell, own or load_client(str(cell.own)))
    return simulated_scene(cell, data_root=data_root)


def _as_planned(what: str, found: str | None, planned: str | None) -> None:
    """A run goes on for days and on other machines: what it reads there must be what it was planned with."""
    if found != planned:
        raise InputError(
            Problem(
                f"{what} is not what this run was planned with",
                why="it has changed, or is another one on this machine: results of different things would be mixed",
                fix="put back what it was, or choose another --out",
            )
        )


def simulated_scene(cell: Cell, *, data_root: Path | None) -> Scene:
    """Draw the client, train it, defend, fuse, observe."""
    dataset = data.load(cell.dataset, root=data_root)
    _as_planned(f"the data set {cell.dataset}", dataset.fingerprint, cell.data_fingerprint)
    _check_model(cell, dataset.shape, dataset.classes)
    client = make_client(cell, dataset, cell.seed)
    w0 = starting_weights(cell.w0, client.victim, dataset, avoid=client.batch, seed=cell.seed)
    defense = parse_defense(cell.defense)
    update = defense.train(client, w0, seed=cell.seed)
    if cell.fuse:
        fusion = parse_fusion(cell.fuse)
        others = other_clients(cell, dataset, client, fusion.clients)
        update = fuse(update, [defense.train(other, w0, seed=other.seed) for other in others], fusion.rho)
    observation = _seen(cell, client, update)
    candidates = data.held_out(dataset, avoid=client.batch, count=CANDIDATES, seed=cell.seed)
    findings = tuple(settings(client.training, client.victim.module, len(client.batch)))
    return Scene(observation, Truth(client.batch, candidates), update, findings)


def own_scene(cell: Cell, own: LocalClient) -> Scene:
    """Train a client of the auditor's own, defend, observe."""
    _as_planned(f"the client {cell.own or own.name}", own.fingerprint, cell.data_fingerprint)
    client = own.client(cell.seed)
    w0 = client.victim.weights() if cell.w0 == "own" else read_weights(Path(cell.w0), client.victim)
    update = parse_defense(cell.defense).train(client, w0, seed=cell.seed)
    observation = _seen(cell, client, update)
    findings = (*settings(client.training, client.victim.module, len(own)), *own.findings())
    return Scene(observation, Truth(client.batch, own.held_out()), update, findings)


def _seen(cell: Cell, client: Client, update: Update) -> Observation:
    """What the server sees of a client that was trained here; training that diverged is refused."""
    trained = {name: update.w0[name] - delta for name, delta in update.delta.items()}
    refuse(differences(trained, client.victim, what="wT"))
    return observe(
        update,
        client.victim,
        knowledge=Knowledge(labels=cell.labels, auxiliary=cell.auxiliary),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
        declared_defense=cell.defense,
    )


def other_clients(cell: Cell, dataset: Dataset, client: Client, count: int) -> list[Client]:
    """Clients of the same round: other seeds, and where a client is a writer, other writers."""
    found: dict[str, Client] = {}
    for seed in other_seeds(cell.seed, TRIES * count):
        other = make_client(cell, dataset, seed, victim=client.victim)
        one_writer = other.batch.writer if other.batch.writer != data.POOLED else None
        if one_writer is None or one_writer != client.batch.writer:
            found.setdefault(one_writer or f"seed {seed}", other)
        if len(found) == count:
            return list(found.values())
    raise InputError(
        Problem(
            f"there are no {count} other writers with {cell.n} images",
            why="an update cannot be mixed with that of the same client",
            fix=f"--fuse with clients={max(1, len(found))}, or a smaller --n",
        )
    )


def _check_model(cell: Cell, shape: Shape, classes: int) -> None:
    _as_planned(
        f"the model {cell.model}", victims.fingerprint(cell.model, shape=shape, classes=classes), cell.model_fingerprint
    )


def make_client(cell: Cell, dataset: Dataset, seed: int, *, victim: Victim | None = None) -> Client:
    """The client that a seed names; another client of the same round trains the same `victim`."""
    writer = cell.writer if victim is None or cell.writer == "pooled" else None
    batch = data.draw_client(dataset, n=cell.n, seed=seed, writer=writer)
    victim = victim or build_victim(cell.model, shape=dataset.shape, classes=dataset.classes, seed=seed)
    return Client(victim, batch, cell.training, seed)


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


def recorded_scene(cell: Cell) -> Scene:
    """What a recorded update shows; scored only where the truth file is given."""
    truth_file = Path(cell.truth_file) if cell.truth_file else None
    recorded = read_update(Path(str(cell.update_file)))
    _check_model(cell, recorded.shape, recorded.classes)
    rounds = [open_recorded(Path(p), cell.model, truth_file) for p in (str(cell.update_file), *cell.more_updates)]
    findings = tuple(dict.fromkeys(finding for opened in rounds for finding in opened.findings))
    refuse_errors(findings)
    first, *more = (_observed(cell, opened) for opened in rounds)
    return Scene(replace(first, more=tuple(more)), rounds[0].truth, rounds[0].update, findings)


def _observed(cell: Cell, opened: Opened) -> Observation:
    recorded, labels = opened.recorded, opened.recorded.labels if opened.truth is None else opened.truth.batch.labels
    if labels is None and cell.labels in ("known", "counts"):
        raise InputError(
            Problem(
                f"{Path(str(cell.update_file)).name} does not tell the labels",
                why="the attacker is granted what nobody wrote down",
                fix="--labels recovered, or give the truth file with --truth",
            )
        )
    granted = Knowledge(labels=cell.labels, normalisation=recorded.normalisation is not None, auxiliary=cell.auxiliary)
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
