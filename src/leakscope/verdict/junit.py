"""The gate's ruling as a JUnit file, which CI servers show cell by cell."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from leakscope.files import writing
from leakscope.verdict.gate import NEVER_RAN, rule_cell
from leakscope.verdict.result import Result


def write_junit(path: Path, result: Result, *, max_level: str) -> None:
    """One test case per cell, failed where the cell alone is above the limit."""
    suite = ElementTree.Element("testsuite", name="leakscope")
    failures = 0
    for cell in result.records:
        name = result.titles[cell.key]
        case = ElementTree.SubElement(suite, "testcase", classname=f"leakscope.{cell.dataset}", name=name)
        ruling = rule_cell(cell, max_level=max_level)
        if not ruling.passed:
            failures += 1
            ElementTree.SubElement(case, "failure", message=ruling.reason)
        else:
            ElementTree.SubElement(case, "system-out").text = ruling.reason
    for number in range(result.never_ran):
        name = f"cell {number + 1} that did not run"
        case = ElementTree.SubElement(suite, "testcase", classname="leakscope", name=name)
        ElementTree.SubElement(case, "failure", message=NEVER_RAN)
    suite.set("tests", str(result.planned))
    suite.set("failures", str(failures + result.never_ran))
    with writing(path) as aside:
        ElementTree.ElementTree(suite).write(aside, encoding="utf-8", xml_declaration=True)
