"""Attacks by name, and how one is put together from its name and settings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

from leakscope.attacks.engine import Attack
from leakscope.attacks.reliability import Reliability
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.options import read

Recipe = TypeVar("Recipe", bound=Callable[..., Attack])


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
    revision: int = 0
    """Raise it when the attack's numbers change: results of before then count as those of another attack."""

    @property
    def by_model(self) -> frozenset[str]:
        """Options whose usual value an adaptation may change once it has seen the model; a given one it may not."""
        return getattr(self.recipe, "by_model", frozenset())


def by_model(*options: str) -> Callable[[Recipe], Recipe]:
    """Marks the options of a recipe whose defaults depend on the model: what is given is noted as `asked`."""

    def mark(recipe: Recipe) -> Recipe:
        @wraps(recipe)
        def composed(**given: Any) -> Attack:
            attack = recipe(**given)
            return replace(attack, asked=attack.asked | {name for name in options if given.get(name) is not None})

        composed.by_model = frozenset(options)  # type: ignore[attr-defined]
        return composed  # type: ignore[return-value]

    return mark


ATTACKS: dict[str, AttackInfo] = {}
"""Filled by leakscope.attacks, and by plugins. A recipe may build on any other by its name."""


def build_attack(
    name: str, settings: Mapping[str, object], *, matching: str = "global", schedule: str | None = None
) -> Attack:
    """The recipe `name` with its parameters, matched to the observed update as `matching` says.

    `schedule`: in place of the attack's own, in all of its parts.
    """
    if name not in ATTACKS:
        raise InputError(unknown("attack", name, ATTACKS))
    recipe = ATTACKS[name].recipe
    attack = recipe(**read_settings(name, settings))
    if schedule is not None:
        if "schedule" in inspect.signature(recipe).parameters:
            attack = recipe(**read_settings(name, {**settings, "schedule": schedule}))
        attack = replace(attack, schedule=schedule, asked=attack.asked | {"schedule"})
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
