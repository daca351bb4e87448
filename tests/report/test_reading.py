"""Run folders come from elsewhere: whole, unfinished, broken or hostile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from leakscope.errors import InputError
from leakscope.report.reading import by_severity, check_key, read_pictures, read_run
from leakscope.verdict.levels import find, judge
from sample_run import write_run


def test_a_finished_run(matrix_run: Path) -> None:
    run = read_run(matrix_run)
    assert run.finished
    assert len(run.cells) == len(run.planned) == 30
    assert run.verdict == judge(run.cells)
    assert run.worst is not None
    assert run.worst.key == by_severity(run.cells)[0].key
    assert len(run.digest) == 64


def test_cells_stand_in_for_the_result_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", attacks=("ig", "sme"), n=4, finished=False)
    last = sorted((folder / "cells").iterdir())[0]
    (last / "cell.json").unlink()
    run = read_run(folder)
    assert not run.finished
    assert (len(run.cells), len(run.planned)) == (1, 2)
    assert run.verdict.level == find(run.cells[0]).level


def test_an_interrupted_run_has_not_ended(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", n=4)
    result = json.loads((folder / "result.json").read_text())
    result["cells"][0]["status"] = "interrupted"
    (folder / "result.json").write_text(json.dumps(result))
    assert not read_run(folder).finished


def test_a_torn_cell_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", attacks=("ig", "sme"), n=4, finished=False)
    torn = sorted((folder / "cells").iterdir())[0]
    (torn / "cell.json").write_text('{"key": ')
    run = read_run(folder)
    assert run.faults == (f"cells/{torn.name}/cell.json cannot be read",)
    assert len(run.cells) == 1


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"schema_version": 7}', '{"schema_version": 1, "cells": 3}'])
def test_a_broken_result_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(InputError, match=r"result\.json"):
        read_run(tmp_path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize("key", ["", "..", "../x", "a/b", "/etc", ".hidden", "a\x00b", "a" * 200, "x\n"])
def test_keys_that_would_leave_the_folder_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError):
        check_key(key)
    hostile = {"schema_version": 1, "cells": [{"key": key, "attack": "sme"}], "summary": {}}
    (tmp_path / "result.json").write_text(json.dumps(hostile))
    assert read_run(tmp_path).cells == ()


def test_pictures_are_clipped_and_free_of_nan(tmp_path: Path) -> None:
    wild = np.array([np.nan, -1, 0.5, 2], np.float32).reshape(1, 1, 2, 2)
    save_file({"reconstructions": wild, "baseline": wild}, tmp_path / "x.safetensors")
    pictures = read_pictures(tmp_path / "x.safetensors")
    assert pictures.reconstructions is not None
    assert pictures.reconstructions.ravel().tolist() == [0, 0, 0.5, 1]
    assert pictures.originals is None
    assert pictures.baseline is None  # four dimensions are not (C, H, W)


def test_broken_pictures_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"not a tensor file")
    with pytest.raises(InputError, match="cannot read"):
        read_pictures(tmp_path / "x.safetensors")
