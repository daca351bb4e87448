"""The record of a cell: written as ever, read whatever it holds, and named with what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.cells.identity import titles
from leakscope.cells.record import Record, is_damage, plain
from leakscope.cells.request import Request
from leakscope.cells.run import run_cell
from leakscope.cells.spec import Cell
from leakscope.errors import InputError
from leakscope.paper.results import cell_of

OLD = Path(__file__).parent / "old"
"""Records as files hold them that were written before there was a Record."""
FIELDS = [
    *("key", "dataset", "model", "attack", "attack_repr", "settings", "defense", "fuse", "client", "knowledge"),
    *("matching", "w0", "round", "combined", "device", "iterations", "metrics", "baseline", "per_image", "intervals"),
    *("missing", "notes", "seconds", "peak_memory_mb", "history", "status"),
]


def cell(**changes: Any) -> Cell:
    facts = {"dataset": "photos", "data_fingerprint": "f", "model": "cnn-cifar", "attack": "sme"}
    return Cell.read({**facts, "n": 4, "epochs": 1, "batch_size": 2, "lr": 0.1, **changes})


def old(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OLD / f"{name}.json").read_text(encoding="utf-8"))
    return found


def parse(given: Any) -> Record:
    return Record.parse(given, place="cells[0]")


@pytest.mark.parametrize("name", ["finished", "failed", "taken_over"])
def test_an_old_file_is_read_and_written_back_byte_for_byte(name: str) -> None:
    record = Record.read(OLD / f"{name}.json")
    assert record.faults == ()
    assert json.dumps(record.as_json(), sort_keys=True) == json.dumps(old(name), sort_keys=True)
    assert parse(record.as_json()) == record


def test_every_part_of_an_old_file_is_there() -> None:
    record = Record.read(OLD / "finished.json")
    assert (record.client.id, record.client.n, record.knowledge.labels) == ("0", 4, "recovered")
    assert record.matching.chosen == "layerwise"
    assert record.gain == pytest.approx(6.907 - 10.117, abs=1e-3)
    assert record.curve("psnr") == ((6, 6.1), (12, 6.9))
    assert [finding.problem.fix for finding in record.findings] == ["record it"]
    assert record.accuracy.loss == pytest.approx(0.01)
    assert Record.read(OLD / "taken_over.json").origin is not None


def test_a_cell_that_ran_is_written_in_the_fields_of_ever() -> None:
    (planned,) = Request(attacks=("sme",), n=2, epochs=1, iterations=2, history=1, device="cpu", compile="off").cells()
    record = run_cell(planned).record
    assert list(record.as_json()) == FIELDS
    assert parse(json.loads(json.dumps(record.as_json(), allow_nan=False))) == record
    assert record.key == planned.key
    assert record.identity == planned.identity


def test_a_failed_cell_tells_which_it_was() -> None:
    asked = cell(
        seed=3, fuse="rho=0.5,clients=2", settings={"lr": 0.5}, update_file="a/b.update.safetensors", tag="sent"
    )
    record = Record.failed(asked, "no", refused=True)
    assert (record.status, record.refused, record.error) == ("failed", True, "no")
    assert old("failed").keys() <= record.as_json().keys()
    assert record.identity == replace(asked.identity, iterations=0)
    assert Record.planned({"key": asked.key, **asked.flat()}).identity == asked.identity


def test_a_row_of_results_is_a_record() -> None:
    row = {**old("taken_over"), "curve": [[7.0, 20.5]], "source": "table1.json", "commit": "abc1234"}
    assert Record.taken_over(row, cell_of(row)) == Record.read(OLD / "taken_over.json")


def test_the_flat_cells_of_a_plan_have_a_client() -> None:
    record = Record.planned({"key": "a", **cell(seed=2).flat()})
    assert record.faults == ()
    assert (record.client.n, record.client.seed, record.title) == (4, 2, "sme · undefended · photos seed 2")


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("metrics", "psnr"), "NaN", "cells[0].metrics.psnr is no number"),
        (("metrics", "psnr"), float("nan"), "cells[0].metrics.psnr is no finite number"),
        (("metrics", "psnr"), 10**400, "cells[0].metrics.psnr is no finite number"),
        (("metrics",), [1], "cells[0].metrics is no object"),
        (("per_image", "psnr", 1), "x", "cells[0].per_image.psnr[1] is no number"),
        (("per_image", "psnr"), 4, "cells[0].per_image.psnr is no list"),
        (("intervals", "identified"), [0.1], "cells[0].intervals.identified"),
        (("client",), 3, "cells[0].client is no object"),
        (("client", "n"), 4.5, "cells[0].client.n is no whole number"),
        (("history",), "x", "cells[0].history is no list"),
        (("history", 0), 3, "cells[0].history[0] is no object"),
        (("history", 0, "psnr"), {}, "cells[0].history[0].psnr is no number"),
        (("attack",), ["sme"], "cells[0].attack is no text"),
        (("attack",), "s\ud800me\x00", "cells[0].attack has characters that are no text"),
        (("round",), -1, "cells[0].round is wrong"),
        (("notes", "deep"), json.loads("[" * 500 + "]" * 500), "is nested too deeply"),
        (("key",), "../../etc", "cells[0].key is not the name of a cell"),
    ],
)
def test_what_does_not_fit_is_named_and_the_rest_stays(place: tuple[Any, ...], value: Any, fault: str) -> None:
    given = old("finished")
    inside = given
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    record = parse(given)
    assert len(record.faults) == 1
    assert fault in record.faults[0]
    assert is_damage(record.faults[0])
    assert record.metrics["ssim"] == old("finished")["metrics"]["ssim"] if place != ("metrics",) else not record.metrics
    json.dumps(record.as_json(), allow_nan=False).encode()


def test_a_damaged_list_keeps_its_places() -> None:
    given = old("finished")
    given["per_image"]["psnr"][1] = "x"
    whole = old("finished")["per_image"]["psnr"]
    assert parse(given).each("psnr") == (whole[0], None, *whole[2:])


def test_more_or_less_than_this_version_writes_is_named_and_no_damage() -> None:
    given = {name: value for name, value in old("finished").items() if name != "model"} | {"colour": "red"}
    faults = parse(given).faults
    assert faults == ("cells[0].model is missing", "cells[0].colour is not a field that this version knows")
    assert not any(map(is_damage, faults))


@pytest.mark.parametrize("given", [None, 3, "x", [], {}, {"key": 3}, {"key": None, "client": None, "defense": None}])
def test_what_is_no_record_has_no_key(given: Any) -> None:
    record = parse(given)
    assert (record.key, record.defense) == ("", "none")
    assert record.faults


def test_a_record_cannot_pretend_to_be_without_faults() -> None:
    assert "cells[0].metrics is no object" in parse({**old("failed"), "metrics": 3, "faults": []}).faults


def test_a_file_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cell.json").write_text('{"key": ')
    with pytest.raises(InputError, match=r"cell\.json is damaged"):
        Record.read(tmp_path / "cell.json")


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from([*FIELDS, "accuracy", "tag", "error", "refused", "taken_over", "x"]), values))
def test_any_json_is_read_and_what_is_kept_fits(given: dict[str, Any]) -> None:
    record = parse(given)
    again = Record.parse(json.loads(json.dumps(record.as_json(), allow_nan=False)), place="cells[0]")
    assert again.as_json() == record.as_json()
    assert not [fault for fault in again.faults if is_damage(fault)]
    assert isinstance(record.title, str)


@given(values)
def test_everything_stored_is_valid_json(value: Any) -> None:
    text = json.dumps(plain(value), allow_nan=False)
    assert plain(json.loads(text)) == json.loads(text)


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    given = {"a": np.float32(0.5), "b": torch.tensor(2), "c": np.arange(2), "d": np.float64("nan")}
    assert plain(given) == {"a": 0.5, "b": 2, "c": [0, 1], "d": None}


def test_notes_of_another_shape_are_passed_over() -> None:
    record = parse({**old("finished"), "notes": {"preflight": [3, {"found": 4}], "clip": 2.0, "generator": None}})
    assert [finding.problem.found for finding in record.findings] == ["4"]
    assert record.note("clip") == {}
    assert record.generator is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"writer": "40"}, {"writer": "42"}),
        ({"update_file": "x", "round": 1, "tag": "sent"}, {"update_file": "x", "round": 1, "tag": "trained"}),
        ({"update_file": "x", "round": 1}, {"update_file": "x", "round": 2}),
        ({"update_file": "x", "client": "a"}, {"update_file": "x", "client": "b"}),
        ({"update_file": "x/a", "data_fingerprint": "1"}, {"update_file": "x/b", "data_fingerprint": "2"}),
        ({"settings": {"lr": 0.5}}, {"settings": {"lr": 0.25}}),
        ({"n": 4}, {"n": 5}),
        ({"lr": 0.1}, {"lr": 0.2}),
        ({"labels": "known"}, {"labels": "recovered"}),
        ({"matching": "mask"}, {"matching": "auto"}),
        ({"fuse": "rho=0.5,clients=2"}, {"fuse": None}),
        ({"w0": "fresh"}, {"w0": "pretrain:epochs=3"}),
        ({"iterations": 10}, {"iterations": 20}),
        ({"restarts": 1}, {"restarts": 2}),
        ({"device": "cpu"}, {"device": "cuda"}),
        ({"dataset": "femnist"}, {"dataset": "photos"}),
        ({"model": "resnet8"}, {"model": "cnn-cifar"}),
    ],
)
def test_two_cells_never_share_a_title(one: dict[str, Any], other: dict[str, Any]) -> None:
    cells = [cell(**one), cell(**other)]
    assert len(set(titles([each.identity for each in cells]).values())) == 2
    records = [Record.failed(each, "no") for each in cells]
    assert len(set(titles([record.identity for record in records]).values())) == 2


def test_the_key_of_a_cell_does_not_know_a_tag_that_is_not_there() -> None:
    assert cell().key == cell(tag=None).key == "dce0868f464f6e71"


def test_an_attack_may_say_more_of_its_matching() -> None:
    record = parse({**old("finished"), "matching": {"chosen": "mine", "why": "asked for", "threshold": 0.5}})
    assert (record.faults, record.matching.chosen) == ((), "mine")
    assert record.as_json()["matching"]["threshold"] == 0.5
