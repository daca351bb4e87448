"""The form that starts an audit: a few of the options, checked as the command line checks them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakscope.attacks import ATTACKS, AttackInfo
from leakscope.cells.request import DEFAULT_ATTACK, Request
from leakscope.data import DATASETS
from leakscope.defenses import DEFENSES
from leakscope.errors import InputError, Problem, unknown
from leakscope.settings import Declared, declared
from leakscope.victims import MODELS
from leakscope.web.folder import NAME

OPTIONS = declared(Request)
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
    """A field for a number: what the dashboard proposes, and the most that it takes on."""

    declared: Declared
    default: int | float | None
    most: float
    help: str

    @property
    def label(self) -> str:
        return self.declared.option.label

    @property
    def whole(self) -> bool:
        return self.declared.kind is int

    @property
    def low(self) -> float:
        """The least that the field takes; a bound that is itself too low has a millionth above it."""
        option = self.declared.option
        return option.range.ends[0] if option.within[0] == "[" else option.range.ends[0] + 1e-6

    @property
    def text(self) -> str:
        """The default as the field shows it."""
        return "" if self.default is None else str(self.default)

    def read(self, text: str) -> int | float | None:
        """The value, None for an empty field that may be empty; ValueError with the complaint."""
        if not text.strip():
            if self.default is None:
                return None
            raise ValueError(f"{self.label} is empty")
        try:
            value: int | float = int(text) if self.whole else float(text)
        except ValueError:
            raise ValueError(f"{self.label}: {text[:20]!r} is not a {'whole ' if self.whole else ''}number") from None
        if not (self.declared.option.range.holds(value) and value <= self.most):
            raise ValueError(f"{self.label}: {value} is not between {self.low:g} and {self.most:g}")
        return value


NUMBERS = {
    number.declared.name: number
    for number in (
        Number(OPTIONS["n"], 20, 1000, "the fewer, the more leaks"),
        Number(OPTIONS["epochs"], 5, 1000, "before the update is sent"),
        Number(OPTIONS["batch_size"], None, 1000, "empty: 10, or all where there are fewer"),
        Number(OPTIONS["lr"], 0.004, 100, "of the client"),
        Number(OPTIONS["iterations"], 500, 100_000, "of the attack; more find more"),
        Number(OPTIONS["clients"], 1, 100, "each with its own images and seed"),
        Number(OPTIONS["seed"], 0, 2**31, "the same seed gives the same client"),
        Number(OPTIONS["workers"], 1, float(os.cpu_count() or 1), "cells attacked at the same time"),
    )
}
CHOICES: dict[str, Sequence[str]] = {
    "dataset": tuple(name for name in DATASETS if ":" not in name and name != "folder"),
    "model": ("", *MODELS),
    **{name: OPTIONS[name].choices for name in ("labels", "mode")},
}
DEFAULTS: dict[str, str] = {name: OPTIONS[name].default or "" for name in CHOICES}


@dataclass(frozen=True)
class Form:
    """A checked form."""

    name: str
    attacks: tuple[str, ...] = (DEFAULT_ATTACK,)
    defenses: tuple[str, ...] = ("none",)
    chosen: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    numbers: Mapping[str, int | float | None] = field(
        default_factory=lambda: {name: number.default for name, number in NUMBERS.items()}
    )

    @property
    def given(self) -> dict[str, Any]:
        """The options of a request that the form fills."""
        single = {**self.chosen, **self.numbers, "history": self.history}
        known = {name: value for name, value in single.items() if value not in (None, "")}
        return {**known, "attacks": self.attacks, "defenses": self.defenses}

    @property
    def history(self) -> int:
        """Iterations between two looks: about fifty pictures and points of the curves, whatever the length."""
        return max(1, min(50, int(self.numbers["iterations"] or 0) // 50))

    def options(self) -> list[str]:
        """The options of `leakscope audit`, without --out."""
        pairs = [
            (OPTIONS[name].flag, str(one))
            for name, value in self.given.items()
            for one in (value if isinstance(value, tuple) else (value,))
        ]
        return [word for pair in pairs for word in pair]

    def request(self) -> Request:
        """The same as the command line would understand it."""
        return Request(**self.given)

    def as_fields(self) -> dict[str, list[str]]:
        """What a browser would send for it: the way in which it is kept on disk."""
        numbers = {name: [] if value is None else [str(value)] for name, value in self.numbers.items()}
        single = {name: [value] for name, value in {"name": self.name, **self.chosen}.items()}
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
            numbers[key] = number.read(_one(fields, key, number.text))
        except ValueError as error:
            problems.append(Problem(str(error)))
    attacks = tuple(dict.fromkeys(fields.get("attack", ())))
    defenses = tuple(dict.fromkeys((*fields.get("defense", ()), *_one(fields, "other_defenses").split())))
    problems += _problems_of_parts(attacks, defenses)
    if problems:
        raise InputError(*problems)
    return Form(name=name, attacks=attacks, defenses=defenses or ("none",), chosen=chosen, numbers=numbers)


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
