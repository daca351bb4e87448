"""Options, each declared once: command line, Python signature, dashboard form, validation and redaction derive from it.

An option is a field of a frozen dataclass, annotated with an `Option`. Nothing here imports torch.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.options import Range

LabelKnowledge = Literal["known", "counts", "recovered", "none"]
Mode = Literal["eval", "train"]
Optimizer = Literal["sgd", "adam"]
MANY = "[1, 1e6]"
"""Of what is counted: more is a mistake, and overflows somewhere."""

CLIENT, ATTACK, RUN = "The client", "The attack", "The run"
"""The panels in which options are shown."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is said of an option beside its name, type and default."""

    help: str
    panel: str = RUN
    flag: str = ""
    """On the command line; made of the field's name unless told."""
    label: str = ""
    """In the dashboard."""
    within: str = "[0, 1e6]"
    """The interval in which a number must lie: more is a mistake, and overflows somewhere."""
    example: object = None
    """A value that works, for the advice; the default unless told."""
    known: Callable[[], Collection[str]] | None = None
    """The names that are registered for it; looked up when they are needed, because registries import torch."""
    harmless: bool | re.Pattern[str] | None = None
    """Whether its value may stand in a report that leaves the house, because it names no person and no place.

    Unless told, numbers and closed choices may, and text may where it is a registered name.
    """

    @functools.cached_property
    def range(self) -> Range:
        return Range(self.within)


@dataclass(frozen=True)
class Declared:
    """A field with its option."""

    name: str
    hint: Any
    """Its type, without the annotation."""
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that may be given, where they are a closed set."""
        return tuple(choice for part in _parts(self.hint) for choice in typing.get_args(part) if _is_literal(part))

    @property
    def kind(self) -> type:
        """bool, int, float, Path, str, or list for an option that may be repeated."""
        parts = [part for part in _parts(self.hint) if part is not type(None)]
        if any(typing.get_origin(part) is Sequence for part in parts):
            return list
        return next((kind for kind in (bool, int, float, Path) if kind in parts), str)

    @property
    def example(self) -> object:
        return self.default if self.option.example is None else self.option.example

    def may_show(self, value: str) -> bool:
        """Whether a report that leaves the house may show this value."""
        harmless, known = self.option.harmless, self.option.known
        if harmless is None:
            return self.kind in (int, float, bool) or bool(self.choices) or (known is not None and value in known())
        return harmless.fullmatch(value) is not None if isinstance(harmless, re.Pattern) else harmless

    def read(self, value: Any) -> Any:
        """The value as the field's type: text as a path or a tuple of one, whole numbers as numbers."""
        if value is None or isinstance(value, bool):
            return value
        if self.kind is list:
            return (os.fspath(value),) if isinstance(value, str | os.PathLike) else tuple(value)
        if self.kind is Path and isinstance(value, str | os.PathLike):
            return Path(value)
        small = isinstance(value, int) and abs(value) < 2**53  # a larger one is out of any bounds, and maybe of a float
        return float(value) if self.kind is float and small else value

    def problems(self, value: Any) -> Iterator[Problem]:
        """What is wrong with a value, in the words of the command line."""
        if value is None and type(None) in _parts(self.hint):
            return
        fix = f"{self.flag} {self.example}"
        if self.choices:
            if value not in self.choices:
                yield unknown(self.flag, str(value), self.choices)
        elif self.kind in (int, float):
            whole = "a whole number" if self.kind is int else "a number"
            if isinstance(value, bool) or not isinstance(value, (int, float) if self.kind is float else int):
                yield Problem(f"{self.flag} {value!r} is not {whole}", fix=fix)
            elif broken := self.option.range.broken(value):
                shown = f"{value:g}" if isinstance(value, float) else f"{value}" if abs(value) < 1e18 else "(huge)"
                yield Problem(f"{self.flag} {shown} is not {broken}", fix=fix)
        elif self.kind is list:
            wrong = [one for one in value if not isinstance(one, str)]
            yield from (Problem(f"{self.flag} {one!r} is not text", fix=f'{self.flag} "{one}"') for one in wrong)
        elif self.kind is str and not isinstance(value, str):
            yield Problem(f"{self.flag} {value!r} is not text", fix=f'{self.flag} "{value}"')


def _parts(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is Literal


def declared(cls: Any) -> Mapping[str, Declared]:
    """The options of a dataclass by field; a subclass that gives a field another default or type keeps its option."""
    return _declared(cls)


@functools.cache
def _declared(cls: Any) -> Mapping[str, Declared]:
    found = {}
    for field in dataclasses.fields(cls):
        owners = [owner for owner in cls.__mro__ if field.name in inspect.get_annotations(owner)]
        said = [owner.__annotations__[field.name] for owner in owners]
        if any(str(one).removeprefix("typing.").startswith("Annotated[") for one in said):
            names = [vars(sys.modules[owner.__module__]) for owner in owners]
            hints = [eval(one, known) if isinstance(one, str) else one for one, known in zip(said, names, strict=True)]
            first = hints[0]
            annotated = next(hint for hint in hints if typing.get_origin(hint) is Annotated)
            option = next(one for one in annotated.__metadata__ if isinstance(one, Option))
            hint = first.__origin__ if typing.get_origin(first) is Annotated else first
            found[field.name] = Declared(field.name, hint, field.default, option)
    return found


def problems_of(settings: Any, *, but: Collection[str] = ()) -> Iterator[Problem]:
    """What is wrong with the fields of a dataclass, one by one."""
    for name, one in declared(type(settings)).items():
        if name not in but:
            yield from one.problems(getattr(settings, name))


# a flag, and what may be its value: not the word with which a sentence goes on
MENTION = re.compile(
    r"(?<![\w-])(--[a-z][a-z0-9-]*)(?: (?!(?:out|or|and|is|to|with|without|needs|smaller|for)\b)([^\s;)]*[^\s;),.:]))?"
)


def in_python(problem: Problem, cls: type) -> Problem:
    """The same problem as somebody calls an option who writes Python.

    >>> @dataclass(frozen=True)
    ... class Asked:
    ...     defenses: Annotated[Sequence[str], Option(help="repeatable", flag="--defense")] = ()
    ...     batch_size: Annotated[int, Option(help="B")] = 10
    >>> in_python(Problem("--batch-size 0 is too small", fix="--defense none, or leave --batch-size out"), Asked)
    Problem(found='batch_size=0 is too small', why='', fix='defenses=["none"], or leave batch_size out')
    """
    by_flag = {one.flag: one for one in declared(cls).values()}

    def say(match: re.Match[str]) -> str:
        one, value = by_flag.get(match[1]), match[2]
        if one is None:
            return match[0]
        if value is None:
            return one.name
        if one.kind in (int, float, bool):
            return f"{one.name}={value}" if value[:1] in "-0123456789in" else f"{one.name} {value}"
        quoted = value if value.startswith(("'", '"')) else f'"{value}"'
        return f"{one.name}=[{quoted}]" if one.kind is list else f"{one.name}={quoted}"

    return Problem(*(MENTION.sub(say, text) for text in (problem.found, problem.why, problem.fix)))


P = typing.ParamSpec("P")
A = typing.TypeVar("A")
R = typing.TypeVar("R")


def asking(cls: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Give a function of one dataclass the signature of that dataclass, and its errors the names that Python uses."""

    def decorate(function: Callable[[A], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def ask(*args: P.args, **kwargs: P.kwargs) -> R:
            given = typing.cast(type, cls)
            names = [field.name for field in dataclasses.fields(given)]
            refuse(unknown("option", name, names) for name in kwargs if name not in names)
            try:
                return function(cls(*args, **kwargs))
            except InputError as error:
                raise InputError(*(in_python(problem, given) for problem in error.problems)) from None

        asked = declared(typing.cast(type, cls))
        parameters = inspect.signature(cls).parameters
        plain = [
            p.replace(annotation=asked[name].hint if name in asked else p.annotation) for name, p in parameters.items()
        ]
        returned = inspect.signature(function).return_annotation
        ask.__signature__ = inspect.Signature(plain, return_annotation=returned)  # type: ignore[attr-defined]
        listed = "\n".join(f"    {one.name}: {one.option.help}" for one in asked.values())
        ask.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{listed}"
        return ask

    return decorate


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a client trains: E epochs of mini-batches of B at rate lr (paper, appendix A)."""

    epochs: Annotated[
        int, Option(help="local epochs E", panel=CLIENT, label="Local epochs", within=MANY, example=20)
    ] = 20
    batch_size: Annotated[
        int | None,
        Option(help="mini-batch B [min(10, n)]", panel=CLIENT, label="Batch size", within=MANY, example=10),
    ] = None
    lr: Annotated[
        float, Option(help="local learning rate", panel=CLIENT, label="Learning rate", within="(0, 1e6]", example=0.004)
    ] = 0.004
    mode: Annotated[Mode, Option(help="client trains in eval | train mode", panel=CLIENT, label="Mode")] = "eval"
    optimizer: Annotated[Optimizer, Option(help="client trains with sgd | adam", panel=CLIENT)] = "sgd"
    momentum: Annotated[float, Option(help="of the client's sgd", panel=CLIENT, within="[0, 1)", example=0.9)] = 0.0
    weight_decay: Annotated[float, Option(help="of the client's optimiser", panel=CLIENT)] = 0.0


@dataclass(frozen=True, kw_only=True)
class LocalTraining(TrainingOptions):
    """The training settings of a client, checked: what an update file tells and a simulation follows."""

    batch_size: int = 10

    def __post_init__(self) -> None:
        refuse(in_python(problem, type(self)) for problem in problems_of(self))

    def steps(self, n: int) -> int:
        """T = E * ceil(N / B)."""
        return self.epochs * math.ceil(n / self.batch_size)
