"""A table of the paper from results/*.json alone: needs neither the data nor a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakscope.cells.record import Record
from leakscope.cells.spec import Cell
from leakscope.paper.grid import CLIENTS, Entry, entries, plan_without_data
from leakscope.paper.measured import Line, lines_of
from leakscope.paper.results import Row, cell_of, facts, read_results, same
from leakscope.paper.targets import Target
from leakscope.paper.tracing import as_record
from leakscope.runs.places import Places


@dataclass(frozen=True)
class Known:
    """What results/ hold, by what each was."""

    cells: Mapping[str, Row]
    trajectories: Mapping[tuple[str, str], Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Known:
        traces: dict[tuple[str, str], Mapping[str, Any]] = {}
        for path in sorted(folder.glob("*.json")):
            for one in json.loads(path.read_text(encoding="utf-8")).get("trajectories", []):
                traces[one["target"], _name(Cell.read(one["cell"]))] = one
        return cls({_name(cell_of(row)): row for row in read_results(folder)}, traces)

    def has(self, dataset: str) -> bool:
        """Whether anything was run on a data set."""
        return any(row["dataset"] == dataset for row in self.cells.values())

    def records(self, entry: Entry) -> list[Record]:
        """The results of an entry's clients that are known."""
        found: list[Record] = []
        for cell in plan_without_data(entry):
            if entry.attack is None:
                trace = self.trajectories.get((entry.target.name, _name(cell)))
                found += [as_record(trace)] if trace is not None else []
            else:
                row = self.cells.get(_name(cell))
                found += [Record.taken_over(row, cell)] if row is not None and same(row, cell) else []
        return found


def known_lines(target: Target, known: Known, *, clients: int = CLIENTS) -> list[Line]:
    """The lines of a target; an entry of which nothing is known says so."""
    places = Places()
    found = []
    for entry in entries(target, clients=clients, quick=False, places=places, present=known.has):
        records = known.records(entry)
        found += lines_of(entry, records, () if records else ("not run",))
    return found


def _name(cell: Cell) -> str:
    return json.dumps(facts(cell), sort_keys=True)
