"""Errors that teach: what was found, why it matters, the one-line fix; all problems of an input at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input."""

    found: str
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        notes = (f"  {label}: {text}" for label, text in (("why", self.why), ("fix", self.fix)) if text)
        return "\n".join([self.found, *notes])


class InputError(Exception):
    """Bad input, with every problem that was found in it. The command line prints it and exits with 2."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


def refusal(found: str, *, why: str = "", fix: str = "") -> InputError:
    """The error for a single problem: `raise refusal("there is no file x", fix="give one")`."""
    return InputError(Problem(found, why, fix))


@contextmanager
def refusing(found: str, *kinds: type[Exception], why: str = "", fix: str = "") -> Iterator[None]:
    """Errors of these kinds become a single problem: what was found, and the first line of what the error says."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        kind, said = type(error).__name__, str(error).partition("\n")[0]
        said = f"{kind}: {said}" if isinstance(error, LookupError) else said or kind  # a KeyError names the key alone
        raise refusal(f"{found}: {said}", why=why, fix=fix) from error


def refuse(problems: Iterable[Problem]) -> None:
    """Raise one InputError for all problems, or return where there are none."""
    found = tuple(problems)
    if found:
        raise InputError(*found)


def each(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work` of every item; what is wrong with any of them is raised together, after the last one."""
    done: list[R] = []
    problems: list[Problem] = []
    for item in items:
        try:
            done.append(work(item))
        except InputError as error:
            problems += error.problems
    refuse(problems)
    return done


def unknown(kind: str, name: str, known: Iterable[str]) -> Problem:
    """An unknown name, with the nearest known one and the whole list."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return Problem(f"unknown {kind} {name!r}", fix=f"{hint}known: {', '.join(names) or 'none'}")


Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """An error refuses the update; with a warning the attack goes on, and the result says so."""

    severity: Severity
    kind: str
    """A short name for machines, e.g. `learning-rate`."""
    problem: Problem

    def as_note(self) -> dict[str, str]:
        """For cell.json: kind, severity, found, why, fix."""
        return {"kind": self.kind, "severity": self.severity, **asdict(self.problem)}

    def __str__(self) -> str:
        return f"{self.severity} {self.kind}: {self.problem}"


def error(kind: str, found: str, *, why: str = "", fix: str) -> Finding:
    return Finding("error", kind, Problem(found, why, fix))


def warning(kind: str, found: str, *, why: str = "", fix: str) -> Finding:
    return Finding("warning", kind, Problem(found, why, fix))
