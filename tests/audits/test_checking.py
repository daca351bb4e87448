"""The gate as a unit test, its machine output, and what is never said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import command_line
import leakscope
from judged import cell
from leakscope.report import advice, wording
from leakscope.verdict.gate import rule
from leakscope.verdict.levels import NOT_PRIVATE
from leakscope.verdict.result import Result
from leakscope.verdict.sarif import sarif
from own_clients import own
from sample_run import write_run

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "src").rglob("*.j2"),
    *(ROOT / "src").rglob("*.js"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
]
PROMISES = re.compile(
    r"(?<!which )\b(?:is|are|was|were|be|been|stays?|remains?|keeps?\s+\w+|proves?|proven|guaranteed)\s+"
    r"(?:now\s+|thus\s+|therefore\s+|hence\s+|fully\s+|provably\s+)?(?:private|leak-free|safe\s+to\s+(?:send|deploy|share))\b",
    re.IGNORECASE,
)


def result_of(*cells: dict) -> Result:
    finished = sum(one["status"] == "finished" for one in cells)
    complete = [{"dataset": "photos", **one, "client": {"seed": 0, **one["client"]}} for one in cells]
    return Result.of({"cells": complete, "summary": {"cells": len(cells), "finished": finished}})


def test_no_attack_succeeded_is_never_called_private() -> None:
    """In no text of the product, whatever the occasion."""
    found = {path.name: PROMISES.findall(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert PROMISES.search("the client is private")
    assert PROMISES.search("so it is safe to deploy")


def test_a_pass_says_what_it_is_not_and_gives_the_interval() -> None:
    ruling = rule(result_of(cell(hits=1, n=100)), max_level="low")
    assert (ruling.passed, ruling.level) == (True, "none")
    assert NOT_PRIVATE in ruling.reason
    assert "1 of 100, 95 % interval 0–5 %" in ruling.reason
    assert ruling.interval == pytest.approx((0.0018, 0.0545), abs=1e-3)


def test_a_fail_gives_the_interval_and_the_guess() -> None:
    ruling = rule(result_of(cell(hits=46)), max_level="low")
    assert (ruling.passed, ruling.level) == (False, "high")
    assert re.search(r"46 of 50 .*95 % interval 81–97 %; a guess made without the update: 2 %", ruling.reason)


def test_one_image_that_was_rebuilt_fails_the_gate() -> None:
    leak = cell(hits=1, n=200)
    leak["per_image"]["ssim"][0] = 0.9
    assert not rule(result_of(cell(n=200), leak), max_level="low").passed


def test_nothing_to_compare_with_is_unknown_and_no_pass() -> None:
    blind = cell()
    blind |= {"metrics": {"psnr": 9.0}, "baseline": {}, "per_image": {"psnr": [9.0] * 50}}
    ruling = rule(result_of(blind), max_level="high")
    assert (ruling.passed, ruling.level) == (False, "unknown")


def test_warnings_before_the_attack_are_told_with_the_ruling() -> None:
    doubtful = cell(notes={"preflight": [{"kind": "mode", "severity": "warning", "found": "a", "why": "", "fix": "b"}]})
    assert "1 of 1 cells ran with preflight warnings" in " ".join(rule(result_of(doubtful), max_level="low").notes)


def test_sarif_has_a_result_per_cell_and_one_per_warning() -> None:
    note = {"kind": "mode", "severity": "warning", "found": "trained in train mode", "why": "", "fix": "record it"}
    harmless, leak = cell(notes={"preflight": [note]}), cell(hits=50, key="b")
    leak["client"]["source"] = "src/client.py:client"
    document = sarif(result_of(harmless, leak), max_level="low")
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    results = document["runs"][0]["results"]
    rules = {entry["id"] for entry in document["runs"][0]["tool"]["driver"]["rules"]}
    assert {entry["ruleId"] for entry in results} <= rules
    assert [(entry["kind"], entry["level"]) for entry in results] == [
        ("pass", "none"),
        ("fail", "warning"),
        ("fail", "error"),
    ]
    place = results[2]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "src/client.py"


def test_the_gate_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", n=3)
    result = json.loads((run / "result.json").read_text())
    result["summary"] |= {"cells": len(result["cells"]), "finished": len(result["cells"])}
    (run / "result.json").write_text(json.dumps(result))
    said = command_line.leakscope("gate", run, "--json", "--sarif", tmp_path / "a.sarif")
    ruling = json.loads(said.stdout)
    assert said.returncode == int(not ruling["passed"])
    assert {"passed", "level", "reason", "limit", "interval", "relative", "notes"} == ruling.keys()
    entries = json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
    assert any(entry["kind"] == "fail" for entry in entries) is not ruling["passed"]


def test_assert_no_leak_passes_within_and_fails_above_the_level(tmp_path: Path) -> None:
    quick = {"attack": "sme", "budget": None, "iterations": 2}
    ruling = leakscope.assert_no_leak(own(), level="high", **quick)
    assert ruling.passed
    with pytest.raises(leakscope.LeakError) as leak:
        leakscope.assert_no_leak(own(candidates=None), level="high", out=tmp_path / "run", **quick)
    assert leak.value.report.is_file()
    assert "No evidence is not a pass" in str(leak.value)


def test_advice_and_words_of_a_harmless_run_promise_nothing() -> None:
    said = " ".join(str(one) for one in (*advice.advise([]), *wording.CAVEATS, *wording.HEADLINES.values()))
    assert not PROMISES.search(said)
