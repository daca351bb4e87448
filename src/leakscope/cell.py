"""One cell of an audit: client x defense x attack x seed, from private images to a scored reconstruction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from leakscope.attacks import build_attack
from leakscope.attacks.budget import Budget
from leakscope.attacks.checkpoints import Checkpoint
from leakscope.attacks.compiled import Choice
from leakscope.attacks.engine import Attack
from leakscope.attacks.fitting import Fit, Memory
from leakscope.attacks.watch import Watch
from leakscope.labels import label_error
from leakscope.local_client import LocalClient
from leakscope.memory import peak_memory_mb, reset_peak_memory
from leakscope.metrics import METRICS, score
from leakscope.metrics.l_sim_fl import l_sim_fl
from leakscope.plugins import load_plugins
from leakscope.prior.folder import refuse_overlap, require_same
from leakscope.simulate import Scene, Truth, stage
from leakscope.types import LabelKnowledge, LocalTraining, Reconstruction, Scores
from leakscope.utility import accuracy_after

PLACES = frozenset({"update_file", "truth_file", "more_updates", "own", "prior", "plugins"})
"""Fields of a cell that say where something lies; what lies there counts by its content."""


class Cell(BaseModel):
    """Everything that determines one result, and nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    data_fingerprint: str
    model: str
    model_fingerprint: str | None = None
    """Of the code and the values of a model of the auditor's own."""
    attack: str
    settings: dict[str, bool | int | float | str] = {}
    """Parameters of the recipe that differ from its defaults."""
    defense: str = "none"
    n: int
    epochs: int
    batch_size: int
    lr: float
    mode: Literal["eval", "train"] = "eval"
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    seed: int = 0
    writer: str | None = None
    fuse: str | None = None
    labels: LabelKnowledge = "known"
    matching: str = "auto"
    auxiliary: bool = False
    prior: str | None = None
    """Folder of a diffusion prior; it counts by its content, `prior_fingerprint`."""
    prior_fingerprint: str | None = None
    w0: str = "fresh"
    w0_fingerprint: str | None = None
    """Of the file that `w0` names."""
    plugins: tuple[str, ...] = ()
    """Files that register attacks, defenses or models; they count by their content, `plugins_fingerprint`."""
    plugins_fingerprint: str | None = None
    iterations: int = 1000
    history: int = 50
    restarts: int = 1
    schedule: str | None = None
    early_stop: float = 0.0
    budget: float | None = None
    """Seconds; the number of iterations then follows from the machine, and the run cannot be repeated bit for bit."""
    memory: Memory = "normal"
    compile: Choice = "auto"
    """Whether the step is compiled; `auto` decides by attack, model, shapes, iterations and device, all in the key."""
    device: str = "cpu"
    rounds: int = 0
    """FedAvg rounds after which test accuracy is measured, with and without the defense; 0 measures none."""
    federation: int = 5
    """Clients in each of those rounds."""
    update_file: str | None = None
    """A recorded update instead of a simulated client; `data_fingerprint` is then the hash of the file."""
    truth_file: str | None = None
    more_updates: tuple[str, ...] = ()
    """Further rounds of the same client, matched together with the first; they count in `data_fingerprint`."""
    own: str | None = None
    """`client.py:client`, a client of the auditor's own; `data_fingerprint` is then that of its content."""
    round: int | None = None
    client: str | None = None
    """Which client a recorded update came from; simulated clients are told apart by their seed."""

    @property
    def key(self) -> str:
        """A hash of everything that determines the result; files count by content, not by place.

        Defaults are left out, so that an option that is added later does not change the keys of old results.
        """
        named = {"w0": self.w0_fingerprint, "model": self.model_fingerprint}
        places = {*PLACES, *(name for name, content in named.items() if content)}
        facts = self.model_dump(exclude=places, exclude_defaults=True)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def training(self) -> LocalTraining:
        return LocalTraining(
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            mode=self.mode,
            optimizer=self.optimizer,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def at_home(self) -> Cell:
        """The same cell with every file by its whole path: a process elsewhere starts in another folder."""

        def code(reference: str) -> str:
            place, colon, name = reference.rpartition(":")
            return f"{_absolute(place)}{colon}{name}"

        return self.model_copy(
            update={
                "own": self.own and code(self.own),
                "model": code(self.model) if self.model_fingerprint else self.model,
                "w0": _absolute(self.w0) if self.w0_fingerprint else self.w0,
                "plugins": tuple(map(_absolute, self.plugins)),
                "update_file": self.update_file and _absolute(self.update_file),
                "truth_file": self.truth_file and _absolute(self.truth_file),
                "more_updates": tuple(map(_absolute, self.more_updates)),
                "prior": self.prior and _absolute(self.prior),
            }
        )

    def __str__(self) -> str:
        writer = f" writer {self.writer}" if self.writer else ""
        return f"{self.attack} on {self.dataset}{writer} seed {self.seed}, defense {self.defense}"


def _absolute(place: str) -> str:
    """The whole path of what is a file or a folder here; a module's name stays as it is."""
    return str(Path(place).absolute()) if place and Path(place).exists() else place


UNSCORED = "no truth file was given"


@dataclass(frozen=True)
class Outcome:
    """A finished cell: what goes to cell.json, and the pictures."""

    record: dict[str, Any]
    images: dict[str, Tensor]


def run_cell(
    cell: Cell,
    *,
    data_root: Path | None = None,
    weights: Path | None = None,
    own: LocalClient | None = None,
    watching: Callable[[Truth | None], Watch] = lambda _: Watch(),
    resume: Checkpoint | None = None,
) -> Outcome:
    """Simulate, defend, observe, attack, score. `own`: the client itself, where it cannot be found by its name."""
    load_plugins(cell.plugins)
    scene = stage(cell, data_root=data_root, own=own)
    if cell.prior is not None:
        _check_prior(cell, Path(cell.prior), scene.truth)
    attack = compose(cell)
    reset_peak_memory(cell.device)
    found = attack(scene.observation, seed=cell.seed, device=cell.device, watch=watching(scene.truth), resume=resume)
    memory = peak_memory_mb(cell.device)
    scores = None if scene.truth is None else _score(scene, found, weights)
    record = _record(cell, attack, scene, found, scores, memory)
    if cell.rounds:
        record["accuracy"] = _price(cell, data_root)
    return Outcome(record, _pictures(scene.truth, found, scores))


def _check_prior(cell: Cell, folder: Path, truth: Truth | None) -> None:
    """The prior that was planned with, and one that has not seen the client's images."""
    require_same(folder, str(cell.prior_fingerprint))
    if truth is not None:
        refuse_overlap(folder, truth.batch)


def compose(cell: Cell) -> Attack:
    """The attack of a cell with its run-wide options."""
    prior = {} if cell.prior is None else {"prior": cell.prior}
    attack = build_attack(cell.attack, {**cell.settings, **prior}, matching=cell.matching)
    adaptations = (*attack.adaptations, Fit(memory=cell.memory))
    if cell.budget is not None:
        adaptations = (*adaptations, Budget(seconds=cell.budget / (1 + len(cell.more_updates))))
    return replace(
        attack,
        adaptations=adaptations,
        iterations=cell.iterations,
        history=cell.history,
        restarts=cell.restarts,
        schedule=cell.schedule or attack.schedule,
        early_stop=cell.early_stop or attack.early_stop,
        compile=cell.compile,
    )


def _price(cell: Cell, data_root: Path | None) -> dict[str, float]:
    """Test accuracy after the rounds, defended and undefended."""
    found = {}
    for name, defense in (("defended", cell.defense), ("undefended", "none")):
        found[name] = accuracy_after(
            cell.dataset,
            data_root,
            cell.model,
            defense,
            cell.w0,
            cell.training,
            n=cell.n,
            seed=cell.seed,
            rounds=cell.rounds,
            clients=cell.federation,
        )
    return found


def _score(scene: Scene, found: Reconstruction, weights: Path | None) -> Scores:
    assert scene.truth is not None
    seen = scene.observation
    replay = partial(l_sim_fl, seen.victim, seen.w0, seen.delta, seen.training, normalisation=seen.normalisation)
    truth = scene.truth
    return score(truth.batch.images, found, candidates=truth.candidates, weights=weights, replay=replay)


def _record(
    cell: Cell, attack: Attack, scene: Scene, found: Reconstruction, scores: Scores | None, memory: float
) -> dict[str, Any]:
    """The JSON of a cell (DESIGN: the run folder)."""
    seen = scene.observation
    unscored = {**dict.fromkeys(METRICS), "l_sim": found.l_sim, "l_sim_raw": found.l_sim_raw}
    client = {**asdict(seen.training), "n": seen.n, "seed": cell.seed, "steps": seen.training.steps(seen.n)}
    if scene.truth is not None and scene.truth.batch.writer is not None:
        client["writer"] = scene.truth.batch.writer
    if cell.client is not None:
        client["id"] = cell.client
    if cell.own is not None:
        client["source"] = cell.own
    notes = {**scene.update.notes, **{k: v for k, v in found.notes.items() if k != "matching"}}
    if scene.truth is not None and scene.truth.batch.labels.dim() == 1:
        classes = seen.victim.classes
        notes["label_error"] = label_error(
            torch.bincount(found.labels, minlength=classes), torch.bincount(scene.truth.batch.labels, minlength=classes)
        )
    if scene.findings:
        notes["preflight"] = [finding.as_note() for finding in scene.findings]
    return {
        "key": cell.key,
        "dataset": cell.dataset,
        "model": cell.model,
        "attack": cell.attack,
        "attack_repr": repr(attack),
        "settings": dict(cell.settings),
        "defense": cell.defense,
        "fuse": cell.fuse,
        "client": client,
        "knowledge": asdict(seen.knowledge),
        "matching": found.notes.get("matching", {"chosen": cell.matching, "why": "asked for"}),
        "w0": cell.w0,
        "round": cell.round,
        "combined": 1 + len(cell.more_updates),
        "device": cell.device,
        "iterations": found.iterations,
        "metrics": unscored if scores is None else dict(scores.metrics),
        "baseline": {} if scores is None else dict(scores.baseline),
        "per_image": {} if scores is None else {name: list(values) for name, values in scores.per_image.items()},
        "intervals": {} if scores is None else {name: list(pair) for name, pair in scores.intervals.items()},
        "missing": dict.fromkeys(_unmeasured(unscored), UNSCORED) if scores is None else dict(scores.missing),
        "notes": notes,
        "seconds": found.seconds,
        "peak_memory_mb": memory,
        "history": [dict(row) for row in found.history],
        "status": found.status,
    }


def _unmeasured(metrics: Mapping[str, float | None]) -> list[str]:
    return [name for name, value in metrics.items() if value is None]


def _pictures(truth: Truth | None, found: Reconstruction, scores: Scores | None) -> dict[str, Tensor]:
    """Originals and reconstructions in the originals' order, and what an attacker would show who knows nothing."""
    if truth is None or scores is None:
        return {"reconstructions": found.images}
    order = list(scores.assignment)
    nothing = truth.candidates.mean(0) if len(truth.candidates) else truth.batch.images.mean((0, 2, 3), keepdim=True)[0]
    return {
        "originals": truth.batch.images,
        "reconstructions": found.images[order],
        "baseline": nothing.expand(truth.batch.images.shape[1:]).contiguous(),
    }
