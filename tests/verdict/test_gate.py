"""The gate."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from judged import cell
from leakscope.errors import InputError
from leakscope.verdict.gate import read_result, rule
from leakscope.verdict.junit import write_junit
from leakscope.verdict.result import Result
from leakscope.verdict.sarif import sarif
from sample_run import write_run


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", n=3)


def with_summary(result, **changes):
    counts = {"cells": len(result.records), "finished": len(result.records), **changes}
    return replace(result, summary=result.summary.model_copy(update=counts))


def test_the_limit_decides(run):
    result = with_summary(read_result(run))
    level = rule(result, max_level="high").level
    assert rule(result, max_level="high").passed
    assert rule(result, max_level="none").passed is (level == "none")
    assert level in rule(result, max_level="high").reason


def test_what_did_not_finish_does_not_pass(run):
    ruling = rule(with_summary(read_result(run), finished=0), max_level="high")
    assert not ruling.passed
    assert "did not finish" in ruling.reason


def test_no_evidence_is_not_a_pass():
    empty = {"cells": [], "summary": {"cells": 0, "finished": 0}}
    ruling = rule(Result.of(empty), max_level="high")
    assert (ruling.passed, ruling.level) == (False, "unknown")
    assert "private" not in ruling.reason


def test_junit_has_a_case_per_cell(run, tmp_path):
    result = read_result(run)
    write_junit(tmp_path / "junit.xml", result, max_level="none")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert int(suite.get("tests")) == len(result.records) == len(suite)
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))


def test_a_cell_that_never_ran_fails_in_every_file(run, tmp_path):
    result = with_summary(read_result(run), cells=5, finished=3)
    write_junit(tmp_path / "junit.xml", result, max_level="high")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    lost = 5 - len(result.records)
    assert int(suite.get("tests")) == len(suite) == 5
    assert len(suite.findall("testcase/failure")) >= lost > 0
    entries = sarif(result, max_level="high")["runs"][0]["results"]
    assert sum(entry["ruleId"] == "no-evidence" and entry["kind"] == "fail" for entry in entries) >= lost


def test_unknown_levels_and_damaged_runs_are_explained(run, tmp_path):
    with pytest.raises(InputError, match="did you mean 'medium'"):
        rule(read_result(run), max_level="medum")
    with pytest.raises(InputError, match="no result"):
        read_result(tmp_path)
    for damaged in ("{", "[]", "{}", '"text"'):
        (run / "result.json").write_text(damaged)
        with pytest.raises(InputError, match="damaged"):
            read_result(run)


def of_cells(*cells, **summary):
    return Result.of({"cells": list(cells), "summary": {"cells": len(cells), "finished": len(cells), **summary}})


def names_in(path):
    return [case.get("name") for case in ElementTree.parse(path).getroot()]


@pytest.mark.parametrize(
    "changes",
    [
        ({"client": {"n": 50, "seed": 0, "writer": "40"}}, {"client": {"n": 50, "seed": 0, "writer": "42"}}),
        ({"round": 1, "tag": "sent"}, {"round": 1, "tag": "trained"}),
        ({"settings": {"lr": 0.5}}, {"settings": {"lr": 0.25}}),
        ({}, {}),
    ],
    ids=["writers", "tags", "settings", "nothing but the key"],
)
def test_every_case_has_a_name_of_its_own(changes, tmp_path):
    result = of_cells(*(cell(**change, key=key) for key, change in zip("ab", changes, strict=True)))
    write_junit(tmp_path / "junit.xml", result, max_level="high")
    texts = [entry["message"]["text"] for entry in sarif(result, max_level="high")["runs"][0]["results"]]
    assert len(set(names_in(tmp_path / "junit.xml"))) == len(set(texts)) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": {"identified": "none"}}, "cells[0].metrics.identified is no number"),
        ({"per_image": {"identified": [0.0, "x"]}}, "cells[0].per_image.identified[1] is no number"),
        ({"notes": 3}, "cells[0].notes is no object"),
        ({"key": ".."}, "cells[0].key is not the name of a cell"),
    ],
)
def test_a_damaged_cell_does_not_pass(change, said, tmp_path):
    result = of_cells({**cell(), **change}, cell(key="b"))
    ruling = rule(result, max_level="high")
    assert not ruling.passed
    assert said in ruling.reason
    write_junit(tmp_path / "junit.xml", result, max_level="high")
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("failures") == "1"


def test_a_field_of_another_version_changes_nothing():
    assert rule(of_cells({**cell(), "lineup": 3}), max_level="high").passed


def test_a_count_that_is_not_told_is_no_pass():
    assert not rule(Result.of({"cells": [cell()], "summary": {}}), max_level="high").passed
    assert not rule(of_cells(cell(), cells=2), max_level="high").passed
    assert not rule(of_cells(cell(status="interrupted")), max_level="high").passed


def test_an_impossible_share_is_taken_as_all_or_none():
    wild = {**cell(), "per_image": {}, "metrics": {"identified": 7.0}}
    assert rule(of_cells(wild), max_level="none").level == "high"
