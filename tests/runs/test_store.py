"""The run folder."""

import json
import os

import numpy as np
import pytest
import torch

from leakscope.cells.record import Record, plain
from leakscope.cells.run import Outcome
from leakscope.cells.spec import Cell
from leakscope.errors import InputError
from leakscope.files import write_json, writing
from leakscope.runs.store import Run


def cell(**changes: object) -> Cell:
    facts = {"dataset": "photos", "data_fingerprint": "f", "model": "cnn-cifar", "attack": "sme"}
    return Cell.read({**facts, "n": 4, "epochs": 1, "batch_size": 2, "lr": 0.1, **changes})


def outcome(key: str, status: str = "finished", **notes: object) -> Outcome:
    facts = {"key": key, "status": status, "metrics": {"psnr": float("nan")}, "baseline": {}, "client": {"n": 1}}
    return Outcome(
        Record.model_validate(plain({**facts, "notes": notes})), {"reconstructions": torch.zeros(1, 1, 2, 2)}
    )


def test_the_key_changes_with_everything_that_determines_the_result_and_with_nothing_else():
    changes = [
        {"seed": 1},
        {"defense": "clip:bound=1"},
        {"iterations": 7},
        {"settings": {"lr": 0.5}},
        {"labels": "none"},
    ]
    keys = {cell(**change).key for change in changes} | {cell().key}
    assert len(keys) == len(changes) + 1
    assert cell(update_file="/here/a").key == cell(update_file="/there/b").key


def test_a_finished_cell_is_found_again_and_an_interrupted_one_is_not(tmp_path):
    run = Run.open(tmp_path / "run", [cell(), cell(seed=1)], command="test")
    run.record(cell().key, outcome(cell().key))
    run.record(cell(seed=1).key, outcome(cell(seed=1).key, "interrupted"))
    assert run.result(cell().key).metrics["psnr"] is None
    assert run.result(cell(seed=1).key) is None
    assert Run.open(tmp_path / "run", [cell(), cell(seed=1)], command="again").planned() == [cell(), cell(seed=1)]


def test_a_run_may_grow_but_not_be_mixed_with_another(tmp_path):
    Run.open(tmp_path / "run", [cell()], command="test")
    assert len(Run.open(tmp_path / "run", [cell(), cell(seed=1)], command="more").planned()) == 2
    with pytest.raises(InputError, match="other settings"):
        Run.open(tmp_path / "run", [cell(seed=9)], command="other")


def finish(run: Run, *cells: Cell) -> None:
    for each in cells:
        run.record(each.key, outcome(each.key))
    run.finish(list(cells), command="test")
    (run.folder / "index.html").write_text("a report")


def test_a_result_is_taken_away_when_a_cell_is_to_be_run(tmp_path):
    """A gate must not pass on the part of a run that was there before it grew."""
    run = Run.open(tmp_path / "run", [cell()], command="test")
    finish(run, cell())
    assert Run.open(tmp_path / "run", [cell()], command="again").finished() is not None
    grown = Run.open(tmp_path / "run", [cell(), cell(seed=1)], command="more")
    assert grown.finished() is None
    assert not (tmp_path / "run" / "result.json").exists()
    finish(grown, cell(), cell(seed=1))
    assert len(grown.finished()["cells"]) == 2


@pytest.mark.parametrize("damaged", ["{", "[]", '{"cells": [{"key": "k", "colour": "red"}]}', '{"cells": 3}'])
def test_a_plan_that_cannot_be_read_is_explained(tmp_path, damaged):
    Run.open(tmp_path / "run", [cell()], command="test")
    (tmp_path / "run" / "plan.json").write_text(damaged)
    with pytest.raises(InputError, match=r"choose another --out|run the audit again"):
        Run.open(tmp_path / "run", [cell()], command="again")


def test_numbers_of_numpy_and_torch_are_numbers(tmp_path):
    run = Run.open(tmp_path / "run", [cell()], command="test")
    notes = {"a": np.float32(0.5), "b": torch.tensor(2), "c": np.arange(2), "d": np.float64("nan")}
    run.record(cell().key, outcome(cell().key, **notes))
    assert run.result(cell().key).notes == {"a": 0.5, "b": 2, "c": [0, 1], "d": None}


def test_an_empty_folder_is_accepted_and_a_foreign_one_is_not(tmp_path):
    (tmp_path / "empty").mkdir()
    Run.open(tmp_path / "empty", [cell()], command="test")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("private")
    with pytest.raises(InputError, match="not empty and not a run"):
        Run.open(tmp_path / "full", [cell()], command="test")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


def test_an_unwritable_place_is_explained(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write"):
        Run.open(tmp_path / "file" / "run", [cell()], command="test")


def test_a_broken_checkpoint_costs_time_not_the_run(tmp_path):
    run = Run.open(tmp_path, [cell()], command="test")
    run.save_checkpoint(cell().key, {"restart": 0, "run": {"v": {"x": torch.ones(2)}}})
    assert run.checkpoint(cell().key)["run"]["v"]["x"].tolist() == [1, 1]
    path = run.place(cell().key) / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:50])
    assert run.checkpoint(cell().key) is None


def test_nothing_half_written_is_left_behind(tmp_path):
    def break_off() -> None:
        with writing(tmp_path / "a" / "file.json") as aside:
            aside.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert list((tmp_path / "a").iterdir()) == []
    write_json(tmp_path / "a" / "file.json", {"whole": True})
    assert json.loads((tmp_path / "a" / "file.json").read_text()) == {"whole": True}
    assert os.listdir(tmp_path / "a") == ["file.json"]  # noqa: PTH208 - hidden files count
