"""What the paper reports: one JSON file for each table and figure, a grid of settings with the reported numbers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from leakscope.errors import InputError, unknown

NAMES = (*(f"table{k}" for k in range(1, 13)), *(f"figure{k}" for k in range(1, 8)), "theorem1")
Pair = tuple[float, float | None]
"""Mean and standard deviation over the paper's five trials; table 8 gives no deviation."""


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Instead(_Told):
    """What takes a data set's place where it is not at hand, and what has to be said about it."""

    dataset: str
    why: str


class Setting(_Told):
    """One row group of a table, or one place on the axis of a figure."""

    name: str
    options: Mapping[str, Any] = {}
    """Fields of `audit.Request`, on top of the target's."""
    instead: Instead | None = None
    x: float | None = None
    series: str | None = None
    """The line this point belongs to, where that is not the attack."""
    reported: Mapping[str, Mapping[str, Pair]] | None
    """attack -> metric -> (mean, deviation); null for figures, whose numbers are not in the text."""


class Target(_Told):
    """A table or figure."""

    name: str
    title: str
    kind: Literal["table", "lines", "convergence", "gallery", "diagram"]
    about: str
    options: Mapping[str, Any] = {}
    attack_options: Mapping[str, Mapping[str, Any]] = {}
    """What single attacks are run with instead."""
    cpu_iterations: int | None = None
    """Of attacks with a generator, where there is no accelerator."""
    metrics: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    """None of them: the target is about the client's trajectory alone."""
    settings: tuple[Setting, ...] = ()
    boxes: Mapping[str, tuple[str, ...]] = {}
    """The stations of a diagram by lane."""

    def reported(self, setting: str, attack: str) -> Mapping[str, Pair]:
        """metric -> (mean, deviation) of one entry, empty where the paper gives none."""
        found = next(one for one in self.settings if one.name == setting)
        return (found.reported or {}).get(attack, {})


def read_target(name: str) -> Target:
    """A target by name, e.g. `table1`."""
    if name not in NAMES:
        raise InputError(unknown("table or figure", name, ("all", *NAMES)))
    text = files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    return Target.model_validate_json(f'{{"name": "{name}", {text.strip()[1:]}')


def choose(name: str) -> list[Target]:
    """One target, or all of them."""
    return [read_target(each) for each in (NAMES if name == "all" else (name,))]
