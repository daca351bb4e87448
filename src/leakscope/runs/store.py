"""The run folder: planned cells, finished cells, checkpoints, live events, and the result that is made of them.

RUN/plan.json              what was asked for
RUN/cells/<key>/cell.json  one result, atomic; images.safetensors beside it
RUN/cells/<key>/           events.jsonl, preview.png and checkpoint.pt while it runs
RUN/result.json            everything, once all cells are done
"""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from leakscope.cells.record import Record, plain
from leakscope.cells.run import Outcome
from leakscope.cells.spec import Cell
from leakscope.errors import InputError, Problem
from leakscope.files import read_object, versions, write_json, writing
from leakscope.verdict.levels import judge

SCHEMA = 1


@dataclass(frozen=True)
class Run:
    """One run folder."""

    folder: Path

    @classmethod
    def open(cls, folder: Path, cells: list[Cell], *, command: str) -> Run:
        """Make the folder, or go on with one that holds the same audit (or a part of it)."""
        run = cls(folder)
        _require_writable(folder)
        planned = run.planned()
        keys = {cell.key for cell in cells}
        if planned is None and any(folder.iterdir()):
            raise InputError(Problem(f"{folder} is not empty and not a run", fix="choose another --out"))
        if planned is not None and not {cell.key for cell in planned} <= keys:
            raise InputError(
                Problem(
                    f"{folder} holds an audit with other settings",
                    why="its results would be mixed with those of this one",
                    fix="choose another --out, or delete the folder",
                )
            )
        plan = {
            "schema_version": SCHEMA,
            "command": command,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cells": [{"key": cell.key, **cell.flat()} for cell in cells],
        }
        if planned is None or len(planned) < len(cells):
            write_json(folder / "plan.json", plan)
        if any(run.result(key) is None for key in keys):  # what it says is no longer the whole of it
            (folder / "result.json").unlink(missing_ok=True)
        return run

    def planned(self) -> list[Cell] | None:
        """The cells of plan.json, None where there is no plan."""
        path = self.folder / "plan.json"
        if not path.exists():
            return None
        try:
            cells = read_object(path)["cells"]
            return [Cell.read({name: value for name, value in cell.items() if name != "key"}) for cell in cells]
        except (InputError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                Problem(
                    f"{path} is not a plan that this version of leakscope can read",
                    why="another version wrote it, or it is damaged",
                    fix="choose another --out, or delete the folder",
                )
            ) from error

    def finished(self) -> dict[str, Any] | None:
        """result.json of a run whose cells are all done; it is taken away when a cell is to be run."""
        path = self.folder / "result.json"
        return read_object(path) if path.exists() and (self.folder / "index.html").exists() else None

    def place(self, key: str) -> Path:
        return self.folder / "cells" / key

    def result(self, key: str) -> Record | None:
        """The record of a cell that is done, None where it has yet to run (again)."""
        record = self.ended(key)
        return record if record is not None and record.done else None

    def ended(self, key: str) -> Record | None:
        """The record of a cell that has ended in any way, failures and interrupted ones too."""
        path = self.place(key) / "cell.json"
        return Record.read(path) if path.exists() else None

    def refused(self, key: str) -> str | None:
        """Why the input of a cell was refused, None where it was not."""
        record = self.ended(key)
        return record.error if record is not None and record.refused else None

    def record(self, key: str, outcome: Outcome) -> None:
        """Store a cell; the pictures first, so that a record is never without them."""
        place = self.place(key)
        with writing(place / "images.safetensors") as aside:
            save_file({name: image.contiguous() for name, image in outcome.images.items()}, aside)
        write_json(place / "cell.json", outcome.record.as_json())
        if outcome.record.done:
            (place / "checkpoint.pt").unlink(missing_ok=True)

    def receive(self, key: str, files: Mapping[str, bytes]) -> None:
        """Store the files of a cell that ran elsewhere, in the order given: the record comes last."""
        for name, content in files.items():
            with writing(self.place(key) / name) as aside:
                aside.write_bytes(content)
        if "cell.json" in files and "checkpoint.pt" not in files:
            (self.place(key) / "checkpoint.pt").unlink(missing_ok=True)

    def sweep(self, key: str) -> None:
        """Remove what a process that was killed left half-written."""
        for aside in self.place(key).glob(".*"):
            aside.unlink(missing_ok=True)

    def record_failure(self, cell: Cell, error: str, *, refused: bool = False) -> None:
        """A cell that failed, alone: the others go on. `refused` is one whose input was at fault."""
        write_json(self.place(cell.key) / "cell.json", Record.failed(cell, error, refused=refused).as_json())

    def save_checkpoint(self, key: str, state: dict[str, Any]) -> None:
        with writing(self.place(key) / "checkpoint.pt") as aside:
            torch.save(state, aside)

    def checkpoint(self, key: str) -> dict[str, Any] | None:
        """The last checkpoint of a cell; one that cannot be read costs time, not the run."""
        path = self.place(key) / "checkpoint.pt"
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
            path.unlink()
            return None
        return state

    def event(self, fact: Mapping[str, object]) -> None:
        """Append one line of live progress to the cell that `fact["key"]` names."""
        place = self.place(str(fact["key"]))
        place.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"time": time.time(), "worker": os.getpid(), **plain(fact)})
        with (place / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def finish(self, cells: list[Cell], *, command: str) -> dict[str, Any]:
        """Write result.json from the cells that are there."""
        records = [record for cell in cells if (record := self.ended(cell.key)) is not None]
        verdict = judge(records)
        result = {
            "schema_version": SCHEMA,
            "command": command,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "versions": versions(),
            "cells": [record.as_json() for record in records],
            "summary": {
                "level": verdict.level,
                "verdict": verdict.sentence,
                "reasons": list(verdict.reasons),
                "worst": verdict.worst_key,
                "cells": len(cells),
                "finished": sum(record.done for record in records),
                "failed": sum(record.status == "failed" for record in records),
            },
        }
        write_json(self.folder / "result.json", result)
        return result


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with writing(folder / ".probe") as aside:
            aside.write_bytes(b"probe")
        (folder / ".probe").unlink()
    except OSError as error:
        raise InputError(
            Problem(
                f"cannot write to {folder}: {error.strerror}",
                fix="choose another --out, or make room on the disk",
            )
        ) from error
