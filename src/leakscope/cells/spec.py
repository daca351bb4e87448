"""A cell: everything that determines one result, and the key that stands for it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from leakscope.attacks.compiled import Choice
from leakscope.attacks.fitting import Memory
from leakscope.types import LabelKnowledge, LocalTraining

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
