"""The gate's ruling as SARIF 2.1.0, which code-scanning pages and editors read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakscope.cells.record import Record
from leakscope.files import versions, write_text
from leakscope.verdict.gate import NEVER_RAN, rule_cell
from leakscope.verdict.levels import NOT_PRIVATE
from leakscope.verdict.result import Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "leakage": (
        "Private images can be rebuilt or recognised from the model update",
        "An attack of the audit leaks more than the limit. The message tells how many images it identified, with the "
        "95 % interval, and how many a guess made without the update would.",
    ),
    "no-evidence": (
        "The audit shows nothing",
        "A cell failed, did not finish or could not be scored. No evidence is not a pass.",
    ),
    "preflight": (
        "The recorded update does not match its metadata",
        "A look at the update before the attack brought up a doubt. The attack may have found too little.",
    ),
}


def write_sarif(path: Path, result: Result, *, max_level: str) -> None:
    """One result per cell, `fail` above the limit and `pass` within it; one more for each warning of a cell."""
    write_text(path, json.dumps(sarif(result, max_level=max_level), indent=1) + "\n")


def sarif(result: Result, *, max_level: str) -> dict[str, Any]:
    """The document."""
    driver = {
        "name": "leakscope",
        "version": versions()["leakscope"],
        "rules": [
            {"id": name, "shortDescription": {"text": short}, "fullDescription": {"text": full}}
            for name, (short, full) in RULES.items()
        ],
    }
    entries = [entry for cell in result.records for entry in _entries(cell, result.titles[cell.key], max_level)]
    broken_off = {"ruleId": "no-evidence", "kind": "fail", "level": "error", "message": {"text": NEVER_RAN}}
    entries += [broken_off] * result.never_ran
    run = {"tool": {"driver": driver}, "results": entries, "properties": {"limit": max_level, "note": NOT_PRIVATE}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _entries(cell: Record, title: str, max_level: str) -> Iterator[dict[str, Any]]:
    ruling = rule_cell(cell, max_level=max_level)
    place = {"physicalLocation": {"artifactLocation": {"uri": _file(cell)}}}
    yield {
        "ruleId": "no-evidence" if ruling.level == "unknown" else "leakage",
        "kind": "pass" if ruling.passed else "fail",
        "level": "none" if ruling.passed else "error",
        "message": {"text": f"{title}: {ruling.reason}"},
        "locations": [place],
        "partialFingerprints": {"cell/v1": cell.key},
        "properties": {"leakage": ruling.level, "interval": list(ruling.interval), "relative": ruling.relative},
    }
    for finding in cell.findings:
        yield {
            "ruleId": "preflight",
            "kind": "fail",
            "level": "warning",
            "message": {"text": f"{finding.problem.found}. {finding.problem.fix}"},
            "locations": [place],
        }


def _file(cell: Record) -> str:
    """The file that a reader should open: that of the client where it is one of their own, else the result."""
    source = (cell.client.source or "").rpartition(":")[0]
    return source if source.endswith(".py") else "result.json"
