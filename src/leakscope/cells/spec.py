"""What a cell is: a client, an attack and where the update comes from; and the key that stands for all of it.

Files tell a cell in flat form, one name for each fact; `Cell.flat` writes it and `Cell.read` checks it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from leakscope.cells.identity import Identity
from leakscope.errors import Problem, refuse
from leakscope.settings import ATTACK, CLIENT, MANY, LabelKnowledge, LocalTraining, Option, TrainingOptions

T = TypeVar("T")
Memory = Literal["normal", "low"]
Compile = Literal["auto", "on", "off"]
Matching = Literal["auto", "global", "mask", "layerwise", "adaptive"]
Schedule = Literal["paper", "fast", "cosine", "constant"]


def _datasets() -> Collection[str]:
    from leakscope.data import DATASETS

    return DATASETS


def _models() -> Collection[str]:
    from leakscope.victims import MODELS

    return MODELS


@dataclass(frozen=True, kw_only=True)
class ClientSpec(TrainingOptions):
    """Who trains, on what, from where."""

    dataset: Annotated[
        str,
        Option(help="photos, femnist, cifar100, ..., folder:PATH", panel=CLIENT, label="Data set", known=_datasets),
    ] = "photos"
    model: Annotated[
        str | None,
        Option(help="a registered model or package.module:factory", panel=CLIENT, label="Model", known=_models),
    ] = None
    n: Annotated[
        int, Option(help="private images of the client", panel=CLIENT, label="Images of the client", within=MANY)
    ] = 50
    seed: Annotated[
        int,
        Option(
            help="client, initial weights, batch order, dummy start",
            panel=CLIENT,
            label="First seed",
            within="[0, 9007199254740992]",
        ),
    ] = 0
    writer: Annotated[str | None, Option(help="writer (femnist) by value or name, or `pooled`", panel=CLIENT)] = None
    w0: Annotated[
        str,
        Option(
            help="fresh | pretrain:epochs=3 | FILE.safetensors",
            panel=CLIENT,
            harmless=re.compile(r"fresh|own|recorded|pretrain(:[a-z_]+=[0-9.e+-]+)?(,[a-z_]+=[0-9.e+-]+)*"),
        ),
    ] = "fresh"
    fuse: Annotated[
        str | None, Option(help="rho=0.75,clients=4: the server sees a mixture", panel=CLIENT, harmless=True)
    ] = None
    rounds: Annotated[
        int,
        Option(help="FedAvg rounds before test accuracy is measured; 0 measures none", panel=CLIENT),
    ] = 0
    federation: Annotated[int, Option(help="clients in each of those rounds", panel=CLIENT, within="[1, 1e4]")] = 5

    @property
    def local_batch(self) -> int:
        """B, which is 10 unless it is given or there are fewer images."""
        return min(10, max(1, self.n)) if self.batch_size is None else self.batch_size

    @property
    def training(self) -> LocalTraining:
        own = {name: getattr(self, name) for name in names_of(TrainingOptions)}
        return LocalTraining(**{**own, "batch_size": self.local_batch})


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """How an update is attacked, whoever it comes from."""

    labels: Annotated[
        LabelKnowledge, Option(help="known | counts | recovered | none", panel=ATTACK, label="Labels")
    ] = "known"
    prior: Annotated[
        str | None,
        Option(help="folder of a diffusion prior (`leakscope prior train`), for dggi", panel=ATTACK),
    ] = None
    matching: Annotated[Matching, Option(help="auto | global | mask | layerwise | adaptive", panel=ATTACK)] = "auto"
    history: Annotated[int, Option(help="a history row every so many iterations", panel=ATTACK, within=MANY)] = 50
    restarts: Annotated[int, Option(help="independent starts, best by objective", panel=ATTACK, within="[1, 1e4]")] = 1
    schedule: Annotated[
        Schedule | None,
        Option(help="paper | fast | cosine | constant [the attack's own]", panel=ATTACK, example="paper"),
    ] = None
    early_stop: Annotated[
        float, Option(help="stop when the objective falls by less than this part", panel=ATTACK, within="[0, 1]")
    ] = 0.0
    memory: Annotated[
        Memory, Option(help="normal | low: fewer copies of the model, fewer images per pass", panel=ATTACK)
    ] = "normal"
    compile: Annotated[Compile, Option(help="auto | on | off: compiled steps where they pay", panel=ATTACK)] = "auto"


@dataclass(frozen=True, kw_only=True)
class AttackSpec(AttackOptions):
    """One attack with its parameters."""

    attack: str
    settings: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Parameters of the recipe that differ from its defaults."""
    auxiliary: bool = False
    """Whether the attacker has other images; `prior` is the folder of what was made of them."""
    iterations: int = 1000
    iterations_asked: bool = False
    """Whether somebody asked for as many as the attack takes by itself, where a model could change that number."""
    budget: float | None = None
    """Seconds; the number of iterations then follows from the machine, and the run cannot be repeated bit for bit."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The client is drawn from a data set."""


@dataclass(frozen=True, kw_only=True)
class Own:
    """A client of the auditor's own: `client.py:client`, or None for an object that was given."""

    own: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """An update file, its truth file, and where it came from."""

    update_file: str
    truth_file: str | None = None
    more_updates: tuple[str, ...] = ()
    """Further rounds of the same client, matched together with the first."""
    round: int | None = None
    client: str | None = None
    """Which client it was; simulated clients are told apart by their seed."""
    tag: str | None = None
    """What its producer calls it, beside the round: `sent`, `trained`."""


Source = Simulated | Own | Recorded


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Fingerprints of what lies in files, in memory or in code: it counts by its content, not by its place."""

    data_fingerprint: str
    model_fingerprint: str | None = None
    """Of the code and the values of a model of the auditor's own."""
    w0_fingerprint: str | None = None
    prior_fingerprint: str | None = None
    plugins_fingerprint: str | None = None


PLACES = frozenset({"update_file", "truth_file", "more_updates", "own", "prior", "plugins"})
"""Facts that say where something lies; what lies there counts by its content."""
ALWAYS = frozenset({"dataset", "model", "n", "epochs", "batch_size", "lr", "attack", "data_fingerprint"})
"""Facts that a key tells even where they are the usual ones."""


OF_THE_CELL = ("defense", "plugins", "device")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that determines one result, and nothing else."""

    client: ClientSpec
    attack: AttackSpec
    contents: Contents
    source: Source = Simulated()
    defense: str = "none"
    plugins: tuple[str, ...] = ()
    """Files that register attacks, defenses, models or data sets."""
    device: str = "cpu"

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.client, self.attack, self.source, self.contents)

    def flat(self, *, but: Collection[str] = (), brief: bool = False) -> dict[str, Any]:
        """Every fact by its name; `brief` leaves out what is usual and not told ALWAYS."""
        facts = {name: value for part in self.parts for name, value in vars(part).items()}
        facts |= {name: getattr(self, name) for name in OF_THE_CELL}
        usual = _usual()
        return {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in facts.items()
            if name not in but and not (brief and name not in ALWAYS and value == usual[name])
        }

    @property
    def combined(self) -> int:
        """How many rounds of one client are attacked together."""
        return 1 + len(self.source.more_updates) if isinstance(self.source, Recorded) else 1

    @property
    def key(self) -> str:
        """A hash of everything that determines the result; files count by content, not by place.

        What is usual is left out, so that an option that is added later does not change the keys of old results.
        """
        named = {"w0": self.contents.w0_fingerprint, "model": self.contents.model_fingerprint}
        facts = self.flat(but={*PLACES, *(name for name, content in named.items() if content)}, brief=True)
        if changed := revisions(self):
            facts["revisions"] = changed
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Cell:
        """The cell of its flat form; what is wrong with it is an InputError that names the facts."""
        groups: dict[type, dict[str, Any]] = {}
        problems = []
        for name, value in facts.items():
            owner = next((part for part in _adapters() if name in names_of(part)), None)
            if owner is not None:
                groups.setdefault(owner, {})[name] = value
            elif name not in OF_THE_CELL:
                problems.append(Problem(f"{name!r} is no fact of a cell"))
        source: type = Recorded if facts.get("update_file") else Own if facts.get("own") else Simulated
        made: dict[type, Any] = {}
        for part in (ClientSpec, AttackSpec, Contents, source):
            try:
                made[part] = _adapters()[part].validate_python(groups.get(part, {}))
            except ValidationError as error:
                problems += [Problem(f"{'.'.join(map(str, e['loc']))}: {e['msg']}") for e in error.errors()]
        refuse(problems)
        own = {name: facts[name] for name in OF_THE_CELL if name in facts} | {
            "plugins": tuple(facts.get("plugins", ()))
        }
        client, attack, contents = made[ClientSpec], made[AttackSpec], made[Contents]
        return cls(client=client, attack=attack, contents=contents, source=made[source], **own)

    def but(self, **facts: Any) -> Cell:
        """The same cell with other facts, by the names of their flat form."""

        def changed(part: T) -> T:
            return dataclasses.replace(part, **{name: facts[name] for name in names_of(type(part)) & facts.keys()})  # type: ignore[type-var]

        own = {name: facts[name] for name in OF_THE_CELL if name in facts}
        client, attack, contents = changed(self.client), changed(self.attack), changed(self.contents)
        return dataclasses.replace(self, client=client, attack=attack, contents=contents, **own)

    def with_absolute_paths(self) -> Cell:
        """The same cell with every file by its whole path: a process elsewhere starts in another folder."""

        def code(reference: str) -> str:
            place, colon, name = reference.rpartition(":")
            return f"{_absolute(place)}{colon}{name}"

        client, attack, source = self.client, self.attack, self.source
        if self.contents.model_fingerprint and client.model:
            client = dataclasses.replace(client, model=code(client.model))
        if self.contents.w0_fingerprint:
            client = dataclasses.replace(client, w0=_absolute(client.w0))
        if attack.prior:
            attack = dataclasses.replace(attack, prior=_absolute(attack.prior))
        if isinstance(source, Own) and source.own:
            source = Own(own=code(source.own))
        if isinstance(source, Recorded):
            source = dataclasses.replace(
                source,
                update_file=_absolute(source.update_file),
                truth_file=source.truth_file and _absolute(source.truth_file),
                more_updates=tuple(map(_absolute, source.more_updates)),
            )
        plugins = tuple(map(_absolute, self.plugins))
        return dataclasses.replace(self, client=client, attack=attack, source=source, plugins=plugins)

    @property
    def identity(self) -> Identity:
        return Identity.of(self.flat(), key=self.key)

    def __str__(self) -> str:
        return str(self.identity)


def revisions(cell: Cell) -> dict[str, int]:
    """What a cell is made of that gave other numbers once, and how often these have changed; mostly nothing."""
    from leakscope.attacks import ATTACKS
    from leakscope.data import clients
    from leakscope.defenses import DEFENSES
    from leakscope.defenses.pipeline import split
    from leakscope.metrics import METRICS

    defenses = [text.partition(":")[0] for text in split(cell.defense)]
    made_of = {
        f"attack {cell.attack.attack}": getattr(ATTACKS.get(cell.attack.attack), "revision", 0),
        **{f"defense {name}": getattr(DEFENSES.get(name), "revision", 0) for name in defenses},
        **{f"metric {name}": metric.revision for name, metric in METRICS.items()},
        "draw of clients": clients.REVISION if isinstance(cell.source, Simulated) else 0,
    }
    return {name: revision for name, revision in made_of.items() if revision}


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {part: TypeAdapter(part) for part in (ClientSpec, AttackSpec, Contents, Recorded, Own, Simulated)}


def names_of(part: Any) -> frozenset[str]:
    """The fields of a dataclass."""
    return frozenset(entry.name for entry in dataclasses.fields(part))


@cache
def _usual() -> dict[str, Any]:
    """What each fact is where nobody said otherwise."""
    return dict(_defaults())


def _defaults() -> Iterator[tuple[str, Any]]:
    for part in (*_adapters(), Cell):
        for entry in dataclasses.fields(part):
            made = entry.default_factory
            yield entry.name, entry.default if made is dataclasses.MISSING else made()


def _absolute(place: str) -> str:
    """The whole path of what is a file or a folder here; a module's name stays as it is."""
    return str(Path(place).absolute()) if place and Path(place).exists() else place
