"""The record of a cell: what its attack found, and on whom; written to cell.json and result.json, and read back here.

Files may come from elsewhere. What a record cannot hold (a text where a number belongs, infinities, numbers beyond any
use, nesting without end, keys nobody knows) is left out and named with its file and field; the rest stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from leakscope.cells.identity import Identity
from leakscope.errors import Finding, Problem
from leakscope.files import read_object

if TYPE_CHECKING:
    from leakscope.cells.spec import Cell
    from leakscope.observation.firewall import Observation
    from leakscope.types import Reconstruction, Scores

DONE = ("finished", "stopped early")
"""Words of a status after which a cell is not run again."""
ENDED = (*DONE, "failed")
ASKED = "asked for"
NO_PICTURES = "taken over from results/, which keep no pictures"
SAFE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PARTS = ("key", "dataset", "model", "attack", "defense", "client", "metrics", "status")
"""What every record has, also that of a failed cell."""
OPTIONAL = frozenset(("fuse", "round", "tag", "schedule", "budget", "seconds", "peak_memory_mb"))
"""Fields that may be null."""
ASKED_ALWAYS = ("dataset", "model", "attack", "settings", "defense", "fuse", "w0", "round", "iterations")
ASKED_SELDOM = ("tag", "restarts", "schedule", "early_stop", "budget")
"""Facts of a cell that its record tells, these where they are not the usual ones."""
CLIENT = ("writer", "seed", "n", "epochs", "batch_size", "lr", "mode", "optimizer", "momentum", "weight_decay")
WHO = {**{name: name for name in CLIENT}, "id": "client", "source": "own"}
"""Fact of the client in a record -> its name among those of a cell."""
TAKEN = (
    *("key", "dataset", "model", "attack", "settings", "defense", "fuse", "client", "knowledge", "matching"),
    *("iterations", "metrics", "baseline", "notes", "seconds", "peak_memory_mb", "status"),
)
"""What a row of results/ tells in the words of a record."""
DEEPEST, LARGEST = 12, 1e100
NO_TEXT = re.compile("[\ud800-\udfff\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
"""Halves of characters, and characters that neither a terminal nor XML should be given."""
MISSING, UNKNOWN = "is missing", "is not a field that this version knows"
WORDS = {
    "string_type": "is no text",
    "int_type": "is no whole number",
    "float_type": "is no number",
    "bool_type": "is neither true nor false",
    "dict_type": "is no object",
    "model_type": "is no object",
    "tuple_type": "is no list",
    "extra_forbidden": UNKNOWN,
}

Number = int | float | None
Series = Annotated[tuple[Number, ...], Field(strict=False)]
Interval = Annotated[tuple[int | float, int | float], Field(strict=False)]
Model = TypeVar("Model", bound=BaseModel)
Location = tuple[str | int, ...]


class _Part(BaseModel):
    """Immutable, and strict: a guess at what a file may have meant would be shown as a measurement."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ClientFacts(_Part):
    """Who trained on what, and how."""

    epochs: int | None = None
    batch_size: int | None = None
    lr: Number = None
    mode: str | None = None
    optimizer: str | None = None
    momentum: Number = None
    weight_decay: Number = None
    n: int | None = None
    seed: int | None = None
    steps: int | None = None
    writer: str | None = None
    id: str | None = None
    """The name that a recorder gave to the client."""
    source: str | None = None
    """`client.py:client`, of a client of the auditor's own."""
    file: str | None = None
    """The name of the recorded update, where nothing else tells which it is."""


class Granted(_Part):
    """What the attacker knew beyond the update."""

    labels: str | None = None
    normalisation: bool | None = None
    auxiliary: bool | None = None


class Matching(_Part):
    """How the update was compared, and why so; an attack may say more."""

    model_config = ConfigDict(extra="allow")

    chosen: str | None = None
    why: str | None = None
    sigma: Number = None
    snr: Number = None
    surrogate: str | None = None


class Accuracy(_Part):
    """Test accuracy after some rounds of training: what a defense costs."""

    defended: Number = None
    undefended: Number = None

    @property
    def loss(self) -> float | None:
        known = self.defended is not None and self.undefended is not None
        return self.undefended - self.defended if known else None  # type: ignore[operator]


class Origin(_Part):
    """The file of results/ that a record comes from, and the commit that made it."""

    file: str | None = None
    commit: str | None = None


def _rows(given: Any) -> Any:
    """Without the rows that were none."""
    return [row for row in given if row is not None] if isinstance(given, list) else given


class Record(_Part):
    """What one cell showed. Only fields that were set are written, so that a file keeps its fields."""

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    key: str = ""
    dataset: str = ""
    model: str = ""
    attack: str = ""
    attack_repr: str = ""
    settings: Mapping[str, bool | int | float | str | None] = {}
    defense: str = "none"
    fuse: str | None = None
    client: ClientFacts = ClientFacts()
    knowledge: Granted = Granted()
    matching: Matching = Matching()
    w0: str = ""
    round: Annotated[int, Field(ge=0)] | None = None
    tag: str | None = None
    """What a recorder marked the update with, to tell it from others of the same client and round."""
    combined: int = 1
    """Updates of the same client that were attacked together."""
    device: str = ""
    iterations: int = 0
    restarts: int = 1
    schedule: str | None = None
    early_stop: float = 0.0
    budget: Number = None
    metrics: Mapping[str, Number] = {}
    """Means over images."""
    baseline: Mapping[str, Number] = {}
    """The same for a guess made without the update."""
    per_image: Mapping[str, Series] = {}
    """In the originals' order."""
    intervals: Mapping[str, Interval] = {}
    missing: Mapping[str, str] = {}
    """Metrics that are null, with the reason."""
    notes: Mapping[str, Any] = {}
    """What defense and attack had to say; those that code reads are properties below."""
    seconds: Number = None
    peak_memory_mb: Number = None
    history: Annotated[tuple[Mapping[str, Number], ...], Field(strict=False), BeforeValidator(_rows)] = ()
    status: str = ""
    accuracy: Accuracy = Accuracy()
    refused: bool = False
    """Whether the input was at fault, where it failed."""
    error: str = ""
    origin: Origin | None = Field(None, alias="taken_over")
    """Where it was taken over from, if it was not made here."""
    faults: tuple[str, ...] = Field((), exclude=True)
    """What its file said that could not be read: `cells[0].metrics.psnr is no number`. Never written."""

    # made

    @classmethod
    def of(
        cls,
        cell: Cell,
        seen: Observation,
        found: Reconstruction,
        scores: Scores,
        *,
        attack_repr: str,
        notes: Mapping[str, object],
        memory: float,
        writer: str | None = None,
        accuracy: Mapping[str, float] | None = None,
    ) -> Record:
        """A cell whose attack has ended."""
        asked, training = _asked(cell.flat()), seen.training
        client = {**asked["client"], **asdict(training), "n": seen.n, "steps": training.steps(seen.n)}
        measured = ("metrics", "baseline", "per_image", "intervals", "missing")
        fields = {
            **asked,
            **{name: getattr(scores, name) for name in measured},
            "key": cell.key,
            "attack_repr": attack_repr,
            "client": client if writer is None else {**client, "writer": writer},
            "knowledge": asdict(seen.knowledge),
            "matching": found.notes.get("matching", {"chosen": cell.attack.matching, "why": ASKED}),
            "device": cell.device,
            "iterations": found.iterations,
            "notes": notes,
            "seconds": found.seconds,
            "peak_memory_mb": memory,
            "history": found.history,
            "status": found.status,
            **({"accuracy": accuracy} if accuracy else {}),
        }
        return cls.model_validate(plain(fields))

    @classmethod
    def failed(cls, cell: Cell, error: str, *, refused: bool = False) -> Record:
        """A cell that failed, alone: the others go on. `refused` is one whose input was at fault."""
        fields = {
            **_asked(cell.flat()),
            "key": cell.key,
            "knowledge": {"labels": cell.attack.labels, "normalisation": True, "auxiliary": cell.attack.auxiliary},
            "iterations": 0,
            "metrics": {},
            "baseline": {},
            "history": [],
            "status": "failed",
            "refused": refused,
            "error": error,
        }
        return cls.model_validate(plain(fields))

    @classmethod
    def taken_over(cls, row: Mapping[str, Any], cell: Cell) -> Record:
        """A row of results/, without pictures and values per image."""
        history = [
            {"iteration": min(cell.attack.history * place, row["iterations"]), "seconds": seconds, "psnr": psnr}
            for place, (seconds, psnr) in enumerate(row.get("curve", ()), start=1)
        ]
        fields = {
            **{name: row[name] for name in TAKEN if name in row},
            "per_image": {},
            "intervals": {},
            "missing": {"identified": NO_PICTURES},
            "history": history,
            "taken_over": {"file": row.get("source"), "commit": row.get("commit")},
        }
        return cls.model_validate(plain(fields))

    # read

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record in a cell.json, or an InputError where there is none that can be read."""
        return cls.parse(read_object(path), place="/".join(path.parts[-3:]))

    @classmethod
    def parse(cls, given: object, *, place: str) -> Record:
        """The record in a JSON value that may come from elsewhere; `place` is where its faults are said to be."""
        faults: list[str] = []
        if not isinstance(given, dict):
            return cls.model_validate({}).model_copy(update={"faults": (f"{place} is no object",)})
        fields = plain({name: value for name, value in given.items() if name != "faults"}, place, faults)
        faults += [f"{place}.{name} is missing" for name in PARTS if name not in fields]
        fields = {name: value for name, value in fields.items() if value is not None or name in OPTIONAL}
        if isinstance(key := fields.get("key"), str) and not SAFE_KEY.fullmatch(key):
            faults.append(f"{place}.key is not the name of a cell")
            del fields["key"]
        record = fitted(cls, fields, place, faults)
        return record.model_copy(update={"faults": tuple(faults)})

    @classmethod
    def planned(cls, entry: Mapping[str, Any]) -> Record:
        """A cell of plan.json that has no record yet: facts of the client stand beside the others there."""
        client = entry.get("client")
        asked = _asked({**entry, "client": None if isinstance(client, dict) else client})
        fields = {
            **asked,
            "key": entry.get("key"),
            "client": client if isinstance(client, dict) else asked["client"],
            "knowledge": {name: entry[name] for name in Granted.model_fields if name in entry},
            "matching": {"chosen": entry.get("matching"), "why": ASKED},
            "metrics": {},
            "status": "",
        }
        return cls.parse(fields, place="plan.json")

    # written and shown

    def as_json(self) -> dict[str, Any]:
        """The object in cell.json, and in `cells` of result.json."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def identity(self) -> Identity:
        client, chosen = self.client, self.matching.chosen
        return Identity(
            **{name: getattr(self, name) for name in (*ASKED_ALWAYS, *ASKED_SELDOM) if name != "settings"},
            **{name: getattr(client, name) for name in CLIENT},
            key=self.key,
            combined=self.combined,
            client=client.id or client.file,
            settings=tuple(sorted(self.settings.items())),
            labels=self.knowledge.labels,
            auxiliary=self.knowledge.auxiliary,
            matching=chosen if self.matching.why == ASKED and chosen != "auto" else None,
        )

    @property
    def title(self) -> str:
        """What people call it; `titles` tells apart those of the same name."""
        return str(self.identity)

    @property
    def done(self) -> bool:
        return self.status in DONE

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def gain(self) -> float | None:
        """PSNR above that of the guess, in dB."""
        ours, guess = self.metrics.get("psnr"), self.baseline.get("psnr")
        return None if ours is None or guess is None else ours - guess

    def each(self, metric: str) -> tuple[float | None, ...]:
        """A metric of every image, empty where it was not measured."""
        return self.per_image.get(metric, ())

    def curve(self, metric: str) -> tuple[tuple[float, float], ...]:
        """(iteration, value) of a metric along the way."""
        points = ((row.get("iteration"), row.get(metric)) for row in self.history)
        return tuple((x, y) for x, y in points if x is not None and y is not None)

    # notes that code reads

    def note(self, name: str) -> Mapping[str, Any]:
        """What a defense or an attack noted under its name, empty where that is nothing with parts."""
        given = self.notes.get(name)
        return given if isinstance(given, Mapping) else {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the look before the attack brought up."""
        given = self.notes.get("preflight")
        return tuple(_finding(note) for note in given if isinstance(note, Mapping)) if isinstance(given, list) else ()

    @property
    def generator(self) -> str | None:
        """What an attack with a generator says of its width."""
        given = self.notes.get("generator")
        return None if given is None else str(given)


def records_in(document: Mapping[str, Any], *, place: str) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """(the cells of a result.json that have a key, all that is wrong with any of them)."""
    found = [Record.parse(cell, place=f"{place}: cells[{i}]") for i, cell in enumerate(document["cells"])]
    return tuple(record for record in found if record.key), tuple(fault for record in found for fault in record.faults)


def is_damage(fault: str) -> bool:
    """Whether something is wrong, and not just more or less there than this version writes."""
    return not fault.endswith((MISSING, UNKNOWN))


def plain(value: Any, place: str = "", faults: list[str] | None = None, *, depth: int = 0) -> Any:
    """As JSON can say it: null where there is no number, and numbers of numpy and torch as numbers.

    What had to be changed is added to `faults` under its `place`.
    """
    faults = [] if faults is None else faults
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str):
        if NO_TEXT.search(value):
            faults.append(f"{place} has characters that are no text")
        return NO_TEXT.sub("\ufffd", value)
    if isinstance(value, int | float):
        if -LARGEST <= value <= LARGEST:
            return value
        faults.append(f"{place} is no finite number")
        return None
    if isinstance(value, Mapping | list | tuple) and depth == DEEPEST:
        faults.append(f"{place} is nested too deeply")
        return None
    if isinstance(value, Mapping):
        below = {plain(str(name), place, faults): entry for name, entry in value.items()}
        return {name: plain(entry, f"{place}.{name}", faults, depth=depth + 1) for name, entry in below.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, f"{place}[{i}]", faults, depth=depth + 1) for i, entry in enumerate(value)]
    return value


def fitted(model: type[Model], fields: dict[str, Any], place: str, faults: list[str]) -> Model:
    """The model of what fits; what does not is taken out of `fields` and named."""
    while True:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            wrong = {_reach(fields, fault["loc"]): fault for fault in error.errors(include_url=False)}
        for place_in, fault in sorted(wrong.items(), key=lambda pair: -len(pair[0])):
            word = WORDS.get(fault["type"]) or f"is wrong: {fault['msg']}"
            faults.append(f"{place}{_spelled(place_in)} {word}")
            _take_out(fields, place_in)


def _reach(fields: Any, location: Location) -> Location:
    """As much of an error's location as is in the data: unions add words of their own."""
    reached: list[str | int] = []
    for step in location:
        inside = step in fields if isinstance(fields, dict) else isinstance(fields, list) and step in range(len(fields))
        if not inside:
            break
        fields = fields[step]
        reached.append(step)
    return tuple(reached)


def _take_out(fields: dict[str, Any], location: Location) -> None:
    """Null in a list, so that the others keep their places; where null does not fit either, the list goes."""
    if _reach(fields, location) != location:
        return
    *way, last = location
    inside: Any = reduce(lambda part, step: part[step], way, cast(Any, fields))
    if isinstance(inside, dict):
        del inside[last]
    elif inside[last] is not None:
        inside[last] = None
    else:
        _take_out(fields, tuple(way))


def _spelled(location: Location) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _asked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a record tells of its cell whatever came of it, from the cell's facts in flat form."""
    more, file, usual = facts.get("more_updates"), facts.get("update_file"), Record.model_fields
    who = {name: facts.get(fact) for name, fact in WHO.items()}
    if isinstance(file, str) and facts.get("client") is None and facts.get("round") is None:
        who["file"] = Path(file).name
    return {
        "round": None,
        **{name: facts[name] for name in ASKED_ALWAYS if name in facts},
        **{name: facts[name] for name in ASKED_SELDOM if facts.get(name, usual[name].default) != usual[name].default},
        "combined": 1 + (len(more) if isinstance(more, list | tuple) else 0),
        "client": {name: value for name, value in who.items() if value is not None},
    }


def _finding(note: Mapping[str, Any]) -> Finding:
    said = {name: str(note.get(name) or "") for name in ("found", "why", "fix")}
    return Finding(
        "error" if note.get("severity") == "error" else "warning", str(note.get("kind") or ""), Problem(**said)
    )
