"""`leakscope reproduce`: lay out a table's cells, take over what is known, run the rest, set it beside the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from leakscope.audits.audit import finish
from leakscope.cells.planning import pick_device
from leakscope.cells.record import Record
from leakscope.cells.spec import Cell
from leakscope.files import versions, write_json, write_text
from leakscope.paper.figures import draw_target
from leakscope.paper.grid import CLIENTS, QUICK, Datasets, Planned, entries, plan
from leakscope.paper.measured import lines_of
from leakscope.paper.pages import page
from leakscope.paper.results import brief, read_results, take_over, write_results
from leakscope.paper.targets import Target, choose
from leakscope.paper.tracing import Trace, as_record, run_traces
from leakscope.runs.executors import Executor
from leakscope.runs.places import Places
from leakscope.runs.store import Run
from leakscope.runs.watching import Notice

NOT_RUN = "not run"


@dataclass(frozen=True)
class Job:
    """Everything that one call of `reproduce` has to do."""

    targets: tuple[Target, ...]
    planned: tuple[Planned, ...]
    quick: bool
    places: Places

    @cached_property
    def cells(self) -> list[Cell]:
        """The attacks to run, each once however many tables show it."""
        wanted = (cell for one in self.planned if one.entry.attack is not None for cell in one.cells)
        return list({cell.key: cell for cell in wanted}.values())

    @cached_property
    def pictured(self) -> set[str]:
        """Cells whose images are shown, and not only their scores."""
        return {cell.key for one in self.planned if one.entry.target.kind == "gallery" for cell in one.cells}

    @cached_property
    def traces(self) -> list[Trace]:
        return [
            Trace(one.entry.target.name, cell) for one in self.planned if one.entry.attack is None for cell in one.cells
        ]


@dataclass(frozen=True)
class Reproduction:
    """What came of it; RUN/reproduce.json holds the same."""

    folder: Path
    result: Mapping[str, Any]
    complete: bool

    @property
    def page(self) -> Path:
        return self.folder / "reproduce.html"


def lay_out(
    name: str,
    *,
    attacks: Sequence[str] = (),
    quick: bool = False,
    clients: int | None = None,
    places: Places | None = None,
    device: str = "auto",
) -> Job:
    """The cells of one target or of all, of some attacks or of all; what cannot be run is kept with its reason."""
    places, datasets = places or Places(), Datasets()
    targets, device = choose(name), pick_device(device)
    found = []
    for target in targets:
        count = clients or (1 if quick else CLIENTS)
        for entry in entries(target, clients=count, quick=quick, places=places, device=device.partition(":")[0]):
            if attacks and entry.attack is not None and entry.attack not in attacks:
                continue
            asked = tuple(replace(request, device=device) for request in entry.requests)
            found.append(plan(replace(entry, requests=asked), datasets))
    return Job(tuple(targets), tuple(found), quick, places)


def begin(job: Job, out: Path, *, results: Path, command: str) -> tuple[Run, list[Cell]]:
    """Open the run folder and take over what results/ hold -> (run, the cells that are left to run)."""
    run = Run.open(out, job.cells, command=command)
    _forget_without_pictures(run, job)
    if not job.quick:
        take_over(run, (cell for cell in job.cells if cell.key not in job.pictured), read_results(results))
    return run, [cell for cell in job.cells if run.result(cell.key) is None]


def carry_out(
    job: Job,
    run: Run,
    todo: list[Cell],
    *,
    execute: Executor,
    workers: int = 1,
    command: str,
    notice: Notice = lambda _: None,
) -> Reproduction:
    """Run what is left of a job, and write the tables, figures and page."""
    complete = execute(run, todo, job.places, notice=notice)
    complete = complete and run_traces(job.traces, run.folder, job.places.data_root, workers=workers)
    if job.cells:
        finish(run, job.cells, command=command)
    return Reproduction(run.folder, _conclude(run, job, command=command), complete)


def _forget_without_pictures(run: Run, job: Job) -> None:
    """A cell that was taken over for its scores has to run where its images are shown."""
    for key in job.pictured:
        place = run.place(key)
        if not (place / "images.safetensors").exists():
            (place / "cell.json").unlink(missing_ok=True)


def _conclude(run: Run, job: Job, *, command: str) -> dict[str, Any]:
    """reproduce.json, results.json, the figures and the page."""
    shown, records = [], _records(run, job)
    for target in job.targets:
        planned = [one for one in job.planned if one.entry.target.name == target.name]
        lines = [line for one in planned for line in lines_of(one.entry, *_of_clients(one, records))]
        figures = draw_target(target, planned, records, run.folder, quick=job.quick)
        shown.append((target, lines, figures))
    result = {
        "schema_version": 1,
        "command": command,
        "quick": QUICK if job.quick else None,
        "versions": versions(),
        "targets": [
            {
                **{fact: getattr(target, fact) for fact in ("name", "title", "about")},
                "figures": [str(path.relative_to(run.folder)) for path in figures],
                "lines": [line.as_json() for line in lines],
            }
            for target, lines, figures in shown
        ],
    }
    write_json(run.folder / "reproduce.json", result)
    write_text(run.folder / "reproduce.html", page(shown, quick=job.quick, command=command))
    rows = [brief(records[cell.key], cell) for cell in job.cells if _is_new(records.get(cell.key))]
    traces = [found for trace in job.traces if (found := trace.result(run.folder)) is not None]
    name = run.folder / "results.json"
    write_results(name, rows, command=command, versions=versions(), trajectories=traces)
    return result


def _records(run: Run, job: Job) -> dict[str, Record]:
    """Every cell and trace that has ended, well or not, by key."""
    cells = {cell.key: run.ended(cell.key) for cell in job.cells}
    traced = {trace.key: trace.result(run.folder) for trace in job.traces}
    return {key: record for key, record in cells.items() if record} | {
        key: as_record(found) for key, found in traced.items() if found
    }


def _of_clients(planned: Planned, records: Mapping[str, Record]) -> tuple[list[Record], list[str]]:
    """The finished records of an entry's clients, and the reasons for those that are missing."""
    ended = [records.get(key) for key in planned.keys]
    reasons = [
        NOT_RUN if record is None else f"failed: {record.error.partition(chr(10))[0]}"
        for record in ended
        if record is None or not record.done
    ]
    return [record for record in ended if record and record.done], [*planned.reasons, *reasons]


def _is_new(record: Record | None) -> bool:
    return record is not None and record.done and record.origin is None
