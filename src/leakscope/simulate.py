"""From a cell to what the attacker sees: simulate a client or read a recorded update. The truth stays on this side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from leakscope import data
from leakscope.client import Client
from leakscope.data import Dataset
from leakscope.defenses import parse_defense
from leakscope.errors import InputError, Problem
from leakscope.fusion import fuse, other_seeds, parse_fusion
from leakscope.observation import Observation, check_update, guess, observe
from leakscope.start import starting_weights
from leakscope.types import ClientBatch, Knowledge, Update
from leakscope.update_file import read_truth, read_update
from leakscope.victims import MODELS, Victim, build_victim

if TYPE_CHECKING:
    from leakscope.cell import Cell

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


def stage(cell: Cell, *, data_root: Path | None) -> Scene:
    """The scene of a cell."""
    return recorded_scene(cell) if cell.update_file else simulated_scene(cell, data_root=data_root)


def simulated_scene(cell: Cell, *, data_root: Path | None) -> Scene:
    """Draw the client, train it, defend, fuse, observe."""
    dataset = data.load(cell.dataset, root=data_root)
    client = make_client(cell, dataset, cell.seed)
    w0 = starting_weights(cell.w0, client.victim, dataset, avoid=client.batch, seed=cell.seed)
    defense = parse_defense(cell.defense)
    update = defense.train(client, w0, seed=cell.seed)
    if cell.fuse:
        fusion = parse_fusion(cell.fuse)
        others = [
            make_client(cell, dataset, seed, victim=client.victim) for seed in other_seeds(cell.seed, fusion.clients)
        ]
        update = fuse(update, [defense.train(other, w0, seed=other.seed) for other in others], fusion.rho)
    observation = observe(
        update,
        client.victim,
        knowledge=Knowledge(labels=cell.labels, auxiliary=cell.auxiliary),
        normalisation=client.batch.normalisation,
        labels=client.batch.labels,
        declared_defense=cell.defense,
    )
    candidates = data.held_out(dataset, avoid=client.batch, count=CANDIDATES, seed=cell.seed)
    return Scene(observation, Truth(client.batch, candidates), update)


def make_client(cell: Cell, dataset: Dataset, seed: int, *, victim: Victim | None = None) -> Client:
    """The client that a seed names; another client of the same round trains the same `victim`."""
    writer = cell.writer if victim is None or cell.writer == "pooled" else None
    batch = data.draw_client(dataset, n=cell.n, seed=seed, writer=writer)
    victim = victim or build_victim(cell.model, shape=dataset.shape, classes=dataset.classes, seed=seed)
    return Client(victim, batch, cell.training, seed)


def recorded_scene(cell: Cell) -> Scene:
    """What a recorded update shows; scored only where the truth file is given."""
    path = Path(str(cell.update_file))
    recorded = read_update(path)
    victim = build_victim(cell.model, shape=recorded.shape, classes=recorded.classes)
    check_update(recorded.update, victim)
    update = in_order(recorded.update, victim)
    normalisation = recorded.normalisation or guess(recorded.shape[0])
    truth, labels = None, recorded.labels
    if cell.truth_file:
        images, labels, candidates, name = read_truth(Path(cell.truth_file))
        truth = Truth(ClientBatch(images, labels, recorded.classes, normalisation, name), candidates)
    if labels is None and cell.labels in ("known", "counts"):
        raise InputError(
            Problem(
                f"{path.name} does not tell the labels",
                why="the attacker is granted what nobody wrote down",
                fix="--labels recovered, or give the truth file with --truth",
            )
        )
    observation = observe(
        update,
        victim,
        knowledge=Knowledge(
            labels=cell.labels, normalisation=recorded.normalisation is not None, auxiliary=cell.auxiliary
        ),
        normalisation=normalisation,
        labels=labels,
        declared_defense=recorded.defense,
    )
    return Scene(observation, truth, update)


def in_order(update: Update, victim: Victim) -> Update:
    """Tensors in the model's own order: files sort them by name, and sums depend on the order in the last digit."""
    return replace(
        update,
        w0={name: update.w0[name] for name in victim.sizes},
        delta={name: update.delta[name] for name in victim.sizes},
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
