"""From a cell to what the attacker sees: simulate a client, or train one of the auditor's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from leakscope import data, victims
from leakscope.cells.spec import Cell, ClientSpec
from leakscope.client.own import LocalClient
from leakscope.client.start import read_weights, starting_weights
from leakscope.client.training import Client
from leakscope.data import Dataset
from leakscope.defenses import parse_defense
from leakscope.errors import Finding, InputError, Problem, refuse
from leakscope.observation.firewall import Observation, observe
from leakscope.observation.fusion import fuse, other_seeds, parse_fusion
from leakscope.preflight import settings
from leakscope.types import ClientBatch, Knowledge, Update
from leakscope.victims import Shape, Victim, build_victim, differences

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


def require_as_planned(what: str, found: str | None, planned: str | None) -> None:
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
    dataset = data.load(cell.client.dataset, root=data_root)
    require_as_planned(f"the data set {cell.client.dataset}", dataset.fingerprint, cell.contents.data_fingerprint)
    check_model(cell, dataset.shape, dataset.classes)
    client = make_client(cell.client, dataset, cell.client.seed)
    w0 = starting_weights(cell.client.w0, client.victim, dataset, avoid=client.batch, seed=cell.client.seed)
    defense = parse_defense(cell.defense)
    update = defense.train(client, w0, seed=cell.client.seed)
    if cell.client.fuse:
        fusion = parse_fusion(cell.client.fuse)
        others = other_clients(cell, dataset, client, fusion.clients)
        update = fuse(update, [defense.train(other, w0, seed=other.seed) for other in others], fusion.rho)
    observation = _seen(cell, client, update)
    candidates = data.held_out(dataset, avoid=client.batch, count=CANDIDATES, seed=cell.client.seed)
    findings = tuple(settings(client.training, client.victim.module, len(client.batch)))
    return Scene(observation, Truth(client.batch, candidates), update, findings)


def own_scene(cell: Cell, own: LocalClient) -> Scene:
    """Train a client of the auditor's own, defend, observe."""
    require_as_planned(f"the client {own.name}", own.fingerprint, cell.contents.data_fingerprint)
    client = own.client(cell.client.seed)
    w0 = client.victim.weights() if cell.client.w0 == "own" else read_weights(Path(cell.client.w0), client.victim)
    update = parse_defense(cell.defense).train(client, w0, seed=cell.client.seed)
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
        knowledge=Knowledge(labels=cell.attack.labels, auxiliary=cell.attack.auxiliary),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
        declared_defense=cell.defense,
    )


def other_clients(cell: Cell, dataset: Dataset, client: Client, count: int) -> list[Client]:
    """Clients of the same round: other seeds, and where a client is a writer, other writers."""
    found: dict[str, Client] = {}
    for seed in other_seeds(cell.client.seed, TRIES * count):
        other = make_client(cell.client, dataset, seed, victim=client.victim)
        one_writer = other.batch.writer if other.batch.writer != data.POOLED else None
        if one_writer is None or one_writer != client.batch.writer:
            found.setdefault(one_writer or f"seed {seed}", other)
        if len(found) == count:
            return list(found.values())
    raise InputError(
        Problem(
            f"there are no {count} other writers with {cell.client.n} images",
            why="an update cannot be mixed with that of the same client",
            fix=f"--fuse with clients={max(1, len(found))}, or a smaller --n",
        )
    )


def check_model(cell: Cell, shape: Shape, classes: int) -> None:
    require_as_planned(
        f"the model {cell.client.model}",
        victims.fingerprint(str(cell.client.model), shape=shape, classes=classes),
        cell.contents.model_fingerprint,
    )


def make_client(spec: ClientSpec, dataset: Dataset, seed: int, *, victim: Victim | None = None) -> Client:
    """The client that a seed names; another client of the same round trains the same `victim`."""
    writer = spec.writer if victim is None or spec.writer == "pooled" else None
    batch = data.draw_client(dataset, n=spec.n, seed=seed, writer=writer)
    victim = victim or build_victim(str(spec.model), shape=dataset.shape, classes=dataset.classes, seed=seed)
    return Client(victim, batch, spec.training, seed)
