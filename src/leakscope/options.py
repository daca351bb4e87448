"""Option strings such as `sparsify:rate=0.9,scope=global`, shared by all options that name a part with parameters."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from leakscope.errors import Problem, refusal, refuse, unknown

Value = bool | int | float | str
T = typing.TypeVar("T")
SWITCH = {**dict.fromkeys(("on", "true", "yes", "1"), True), **dict.fromkeys(("off", "false", "no", "0"), False)}


@dataclass(frozen=True)
class Call:
    """A name with keyword parameters, e.g. `clip:bound=4`."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        given = ",".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}:{given}" if given else self.name


def parse_call(text: str) -> Call:
    """`name:key=value,key=value` -> Call.

    >>> parse_call("clip:bound=4")
    Call(name='clip', options=(('bound', '4'),))
    """
    name, _, rest = text.strip().partition(":")
    if not name.strip():
        raise refusal(f"{text!r} names nothing", fix="write name or name:key=value,key=value")
    return Call(name.strip(), tuple(parse_pairs(rest).items()))


def parse_pairs(text: str) -> dict[str, str]:
    """`key=value,key=value` -> dict; every malformed piece is reported."""
    pairs: dict[str, str] = {}
    problems = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not key or not value:
            problems.append(Problem(f"{piece!r} is not key=value", fix="write e.g. rate=0.9"))
        elif key in pairs:
            problems.append(Problem(f"{key!r} is given twice", fix="give it once"))
        else:
            pairs[key] = value
    refuse(problems)
    return pairs


def build(cls: type[T], options: Mapping[str, object], *, kind: str) -> T:
    """Make a dataclass from option strings: unknown keys and unreadable values are all reported at once."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: hints[f.name] for f in dataclasses.fields(typing.cast(typing.Any, cls)) if f.init}
    problems: list[Problem] = []
    ready: dict[str, object] = {}
    for key, value in options.items():
        if key not in fields:
            problems.append(unknown(f"option of {kind}", key, fields))
            continue
        try:
            ready[key] = read(value, fields[key])
        except ValueError as error:
            problems.append(Problem(f"{kind}: {key}={value} {error}"))
    problems.extend(
        Problem(f"{kind} needs {name}", fix=f"write {kind}:{name}=...; options: {', '.join(fields)}")
        for name in _required(cls)
        if name not in options
    )
    refuse(problems)
    return cls(**ready)


@dataclass(frozen=True)
class Range:
    """Where the number of an option must lie: `rate: Annotated[float, Range("[0, 1)")]`, without 1 itself."""

    interval: str
    example: object = None
    """For the advice, where the option has no default."""

    @cached_property
    def ends(self) -> tuple[float, float]:
        low, high = map(float, self.interval[1:-1].split(","))
        return low, high

    def holds(self, number: float) -> bool:
        """Whether a number lies within; neither infinity nor not-a-number does, unless an end is infinity itself."""
        return not self.broken(number)

    def broken(self, number: float) -> str:
        """The bound that a number breaks, in words: `at least 1`, `above 0`; nothing where it breaks none."""
        low, high = self.ends
        if not (low < number or (self.interval[0] == "[" and low == number)):
            return f"{'at least' if self.interval[0] == '[' else 'above'} {low:,.15g}"
        if number < high or (self.interval[-1] == "]" and number == high):
            return ""
        return "finite" if high == math.inf else f"{'at most' if self.interval[-1] == ']' else 'below'} {high:,.15g}"


def out_of_range(part: object, *, kind: str, advice: str) -> Iterator[Problem]:
    """Which numbers of a dataclass are not in their `Range`; the advice has places for name and example."""
    hints = typing.get_type_hints(type(part), include_extras=True)
    for field in dataclasses.fields(typing.cast(typing.Any, part)):
        value, said = getattr(part, field.name), getattr(hints[field.name], "__metadata__", ())
        for wanted in (one for one in said if isinstance(one, Range) and value is not None and one.broken(value)):
            example = wanted.example if field.default in (None, dataclasses.MISSING) else field.default
            fix = advice.format(name=field.name, flag=field.name.replace("_", "-"), example=example)
            yield Problem(f"{kind}: {field.name}={value:g} is not {wanted.broken(value)}", fix=fix)


def _required(cls: type) -> list[str]:
    fields = dataclasses.fields(typing.cast(typing.Any, cls))
    return [f.name for f in fields if f.init and f.default is f.default_factory is dataclasses.MISSING]


def read(value: object, hint: object) -> object:
    """One option value as the type its field declares.

    >>> read("1e-3", float), read("off", bool), read("3", int)
    (0.001, False, 3)
    """
    if not isinstance(value, str):
        return value
    choices = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    if typing.get_origin(hint) is typing.Literal:
        if value not in choices:
            raise ValueError(f"is none of {', '.join(map(str, choices))}")
        return value
    if isinstance(hint, types.UnionType):
        return None if value.lower() in ("none", "null") else read(value, choices[0])
    if hint is bool:
        if value.lower() not in SWITCH:
            raise ValueError("is neither on nor off")
        return SWITCH[value.lower()]
    if hint is int or hint is float:
        complaint = "is not a whole number" if hint is int else "is not a number"
        try:
            number: float = int(value) if hint is int else float(value)
        except ValueError:
            raise ValueError(complaint) from None
        if math.isnan(number):
            raise ValueError(complaint)
        return number
    return value


def canonical(name: str, part: object) -> str:
    """The option string of a dataclass part: only what differs from the defaults, in field order."""
    given = []
    for field in dataclasses.fields(typing.cast(typing.Any, part)):
        value = getattr(part, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            given.append((field.name, write(value)))
    return str(Call(name, tuple(given)))


def write(value: object) -> str:
    """One option value as text that `read` gives back: floats as short as they can be without loss."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)
