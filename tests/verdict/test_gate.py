"""The gate."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

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
