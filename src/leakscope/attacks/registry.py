"""Attacks by name, and how one is put together from its name and settings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from leakscope.attacks.engine import Attack
from leakscope.attacks.reliability import Reliability
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.options import read


@dataclass(frozen=True)
class AttackInfo:
    """An attack as `leakscope list attacks` shows it."""

    recipe: Callable[..., Attack]
    paper: str
    needs: str
    cost: str
    """Per iteration, relative to SME."""
    auxiliary: bool = False
    """Whether it uses a prior made of other images: `--prior`."""


ATTACKS: dict[str, AttackInfo] = {}
"""Filled by leakscope.attacks, and by plugins. A recipe may build on any other by its name."""
MATCHINGS = ("auto", "global", "mask", "layerwise", "adaptive")


def build_attack(name: str, settings: Mapping[str, object], *, matching: str = "global") -> Attack:
    """The recipe `name` with its parameters, matched to the observed update as `matching` says."""
    if name not in ATTACKS:
        raise InputError(unknown("attack", name, ATTACKS))
    attack = ATTACKS[name].recipe(**read_settings(name, settings))
    if matching == "global":
        return attack
    return replace(attack, adaptations=(Reliability(mode=matching), *attack.adaptations))  # type: ignore[arg-type]


def read_settings(name: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Parameters of a recipe from strings or values, each checked against its declared type."""
    recipe = ATTACKS[name].recipe
    hints = typing.get_type_hints(recipe)
    known = inspect.signature(recipe).parameters
    problems, ready = [], {}
    for key, value in settings.items():
        if key not in known:
            problems.append(unknown(f"parameter of {name}", key, known))
            continue
        try:
            ready[key] = read(value, hints[key])
        except ValueError as error:
            problems.append(Problem(f"{name}.{key}={value} {error}"))
    refuse(problems)
    return ready
