"""result.json as a value: the records of a run, what it set out to do, and what its summary says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from leakscope.cells.identity import titles
from leakscope.cells.record import Record, fitted, is_damage, plain, records_in
from leakscope.errors import InputError, Problem
from leakscope.files import read_object

SCHEMA = 1


class Summary(BaseModel):
    """What the run said of itself when it ended."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    level: str = ""
    verdict: str = ""
    worst: str | None = None
    cells: int | None = None
    """How many were planned."""
    finished: int | None = None
    failed: int | None = None


SAID_NOTHING = Summary()


@dataclass(frozen=True)
class Result:
    """A run that has ended, or was interrupted."""

    records: tuple[Record, ...]
    summary: Summary = SAID_NOTHING
    faults: tuple[str, ...] = ()
    """What could not be read, by file and field."""

    @classmethod
    def read(cls, path: Path) -> Result:
        """The result in a file, or an InputError where there is none."""
        return cls.of(read_object(path), place=str(path))

    @classmethod
    def of(cls, document: Mapping[str, Any], *, place: str = "result.json") -> Result:
        """The result in the object of result.json."""
        version, name = document.get("schema_version", SCHEMA), Path(place).name
        if version != SCHEMA:
            found = f"{place} has schema_version {version!r:.40}, this leakscope reads {SCHEMA}"
            raise InputError(Problem(found, fix="read it with the leakscope that wrote it, or run the audit again"))
        if not isinstance(document.get("cells"), list):
            raise InputError(Problem(f"{place} is damaged: it has no list of cells", fix="run the audit again"))
        records, faults = records_in(document, place=name)
        given = document.get("summary")
        wrong = [] if isinstance(given, dict) else [f"{name}: summary is no object"]
        told = plain(given if isinstance(given, dict) else {}, f"{name}: summary", wrong)
        summary = fitted(Summary, told, f"{name}: summary", wrong)
        return cls(records, summary, (*wrong, *faults))

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """key -> what people call the cell, and no other of this run."""
        return titles([record.identity for record in self.records])

    @property
    def damage(self) -> tuple[str, ...]:
        return tuple(filter(is_damage, self.faults))

    @property
    def planned(self) -> int:
        return max(len(self.records), self.summary.cells or 0)

    @property
    def finished(self) -> int:
        """By the records and by the summary, whichever says less."""
        done = sum(record.done for record in self.records)
        return done if self.summary.finished is None else min(done, self.summary.finished)

    @property
    def never_ran(self) -> int:
        """How many cells were planned that have left no record at all, not even of a failure."""
        return self.planned - len(self.records)
