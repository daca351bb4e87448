"""The form that starts an audit: a few whitelisted options, checked as the command line checks them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from leakscope.attacks import ATTACKS, AttackInfo
from leakscope.cells.request import DEFAULT_ATTACK, Request
from leakscope.data import DATASETS
from leakscope.defenses import DEFENSES
from leakscope.errors import InputError, Problem, unknown
from leakscope.types import LabelKnowledge
from leakscope.victims import MODELS
from leakscope.web.folder import NAME

SUGGESTED_DEFENSES = (
    "none",
    "clip:bound=4",
    "sparsify:rate=0.9",
    "gaussian:std=0.1",
    "soteria:rate=0.8",
    "dpsgd:epsilon=10,clip=1",
)
SAFE_TEXT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_:=.,+eE")


@dataclass(frozen=True)
class Number:
    """A field for a number, with the range in which the dashboard accepts it."""

    label: str
    default: int | float | None
    low: float
    high: float
    help: str
    whole: bool = True

    @property
    def text(self) -> str:
        """The default as the field shows it."""
        return "" if self.default is None else str(self.default)

    def read(self, name: str, text: str) -> int | float | None:
        """The value, None for an empty field that may be empty; ValueError with the complaint."""
        if not text.strip():
            if self.default is None:
                return None
            raise ValueError(f"{name} is empty")
        try:
            value: int | float = int(text) if self.whole else float(text)
        except ValueError:
            raise ValueError(f"{name} = {text[:20]!r} is not a {'whole ' if self.whole else ''}number") from None
        if not self.low <= value <= self.high:
            raise ValueError(f"{name} = {value} is not between {self.low:g} and {self.high:g}")
        return value


NUMBERS = {
    "n": Number("Images of the client", 20, 1, 1000, "the fewer, the more leaks"),
    "epochs": Number("Local epochs", 5, 1, 1000, "before the update is sent"),
    "batch_size": Number("Batch size", None, 1, 1000, "empty: 10, or all where there are fewer"),
    "lr": Number("Learning rate", 0.004, 1e-8, 100, "of the client", whole=False),
    "iterations": Number("Iterations", 500, 1, 100_000, "of the attack; more find more"),
    "clients": Number("Clients", 1, 1, 100, "each with its own images and seed"),
    "seed": Number("First seed", 0, 0, 2**31, "the same seed gives the same client"),
    "workers": Number("Workers", 1, 1, float(os.cpu_count() or 1), "cells attacked at the same time"),
}
CHOICES: dict[str, Sequence[str]] = {
    "dataset": tuple(name for name in DATASETS if ":" not in name and name != "folder"),
    "model": ("", *MODELS),
    "labels": get_args(LabelKnowledge),
    "mode": ("eval", "train"),
}
DEFAULTS: dict[str, str] = {"dataset": "photos", "model": "", "labels": "known", "mode": "eval"}


@dataclass(frozen=True)
class Form:
    """A checked form."""

    name: str
    dataset: str = "photos"
    model: str = ""
    labels: str = "known"
    mode: str = "eval"
    attacks: tuple[str, ...] = (DEFAULT_ATTACK,)
    defenses: tuple[str, ...] = ("none",)
    numbers: Mapping[str, int | float | None] = field(
        default_factory=lambda: {name: number.default for name, number in NUMBERS.items()}
    )

    @property
    def history(self) -> int:
        """Iterations between two looks: about fifty pictures and points of the curves, whatever the length."""
        return max(1, min(50, int(self.numbers["iterations"] or 0) // 50))

    def options(self) -> list[str]:
        """The options of `leakscope audit`, without --out."""
        named = [("--dataset", self.dataset), ("--labels", self.labels), ("--mode", self.mode)]
        named += [("--history", str(self.history))]
        named += [("--model", self.model)] if self.model else []
        named += [("--attack", attack) for attack in self.attacks]
        named += [("--defense", defense) for defense in self.defenses]
        named += [
            (f"--{key.replace('_', '-')}", f"{value}") for key, value in self.numbers.items() if value is not None
        ]
        return [word for pair in named for word in pair]

    def request(self) -> Request:
        """The same as the command line would understand it."""
        numbers = {key: value for key, value in self.numbers.items() if key != "workers" and value is not None}
        return Request(
            dataset=self.dataset,
            model=self.model or None,
            labels=self.labels,
            mode=self.mode,
            attacks=self.attacks,
            defenses=self.defenses,
            history=self.history,
            **numbers,  # type: ignore[arg-type]
        )

    def as_fields(self) -> dict[str, list[str]]:
        """What a browser would send for it: the way in which it is kept on disk."""
        numbers = {key: [] if value is None else [str(value)] for key, value in self.numbers.items()}
        single = {key: [getattr(self, key)] for key in ("name", *CHOICES)}
        return {**single, "attack": list(self.attacks), "defense": list(self.defenses), **numbers}


def offered_attacks() -> dict[str, AttackInfo]:
    """Those that need no file of this machine, which a browser must not name."""
    return {name: info for name, info in ATTACKS.items() if not info.auxiliary}


def read_form(fields: Mapping[str, Sequence[str]]) -> Form:
    """A Form from what a browser sent; every problem at once."""
    problems: list[Problem] = []
    known = {"name", "attack", "defense", "other_defenses", *CHOICES, *NUMBERS}
    problems += [unknown("field", name[:40], known) for name in fields if name not in known]
    name = _one(fields, "name")
    if not NAME.fullmatch(name):
        problems.append(Problem(f"{name[:40]!r} cannot name a run", fix="letters, digits, dots, dashes; at most 100"))
    chosen = {key: _one(fields, key) or DEFAULTS[key] for key in CHOICES}
    problems += [unknown(key, value[:40], CHOICES[key]) for key, value in chosen.items() if value not in CHOICES[key]]
    numbers: dict[str, int | float | None] = {}
    for key, number in NUMBERS.items():
        try:
            numbers[key] = number.read(key, _one(fields, key, number.text))
        except ValueError as error:
            problems.append(Problem(str(error)))
    attacks = tuple(dict.fromkeys(fields.get("attack", ())))
    defenses = tuple(dict.fromkeys((*fields.get("defense", ()), *_one(fields, "other_defenses").split())))
    problems += _problems_of_parts(attacks, defenses)
    if problems:
        raise InputError(*problems)
    return Form(name=name, attacks=attacks, defenses=defenses or ("none",), numbers=numbers, **chosen)


def _problems_of_parts(attacks: Sequence[str], defenses: Sequence[str]) -> list[Problem]:
    offered = offered_attacks()
    found = [unknown("attack", name[:40], offered) for name in attacks if name not in offered]
    found += [] if attacks else [Problem("no attack is chosen", fix="choose at least one")]
    for text in defenses:
        names = [part.partition(":")[0] for part in text.split("+")]
        if len(text) > 200 or not SAFE_TEXT.issuperset(text):
            found.append(Problem(f"{text[:40]!r} is not a defense", fix="write it as clip:bound=4"))
        else:
            found += [unknown("defense", name, DEFENSES) for name in names if name not in DEFENSES]
    return found


def _one(fields: Mapping[str, Sequence[str]], name: str, default: str = "") -> str:
    values = fields.get(name, ())
    return values[-1].strip() if values else default
