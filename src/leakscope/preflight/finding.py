"""One thing that a look at an update before the attack brought up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from leakscope.errors import Problem

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
