"""The gate's ruling as a JUnit file, which CI servers show cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from leakscope.files import writing
from leakscope.verdict.gate import NEVER_RAN, name_of, never_ran, rule_cell


def write_junit(path: Path, result: Mapping[str, Any], *, max_level: str) -> None:
    """One test case per cell, failed where the cell alone is above the limit."""
    suite = ElementTree.Element("testsuite", name="leakscope")
    failures = 0
    for cell in result["cells"]:
        case = ElementTree.SubElement(suite, "testcase", classname=f"leakscope.{cell['dataset']}", name=name_of(cell))
        ruling = rule_cell(cell, max_level=max_level)
        if not ruling.passed:
            failures += 1
            ElementTree.SubElement(case, "failure", message=ruling.reason)
        else:
            ElementTree.SubElement(case, "system-out").text = ruling.reason
    for number in range(never_ran(result)):
        name = f"cell {number + 1} that did not run"
        case = ElementTree.SubElement(suite, "testcase", classname="leakscope", name=name)
        ElementTree.SubElement(case, "failure", message=NEVER_RAN)
    suite.set("tests", str(len(result["cells"]) + never_ran(result)))
    suite.set("failures", str(failures + never_ran(result)))
    with writing(path) as aside:
        ElementTree.ElementTree(suite).write(aside, encoding="utf-8", xml_declaration=True)
