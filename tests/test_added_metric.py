"""A metric is added by its own file and one line, and is everywhere: computed, listed, explained, shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from leakscope.audits.audit import AuditResult, run_cells
from leakscope.audits.tune import Range, Study
from leakscope.cells.record import Record
from leakscope.cells.request import Request
from leakscope.metrics import METRICS
from leakscope.paper import read_target
from leakscope.paper.grid import Entry
from leakscope.paper.measured import lines_of
from leakscope.paper.pages import table
from leakscope.paper.results import brief
from leakscope.runs.executors import choose_executor
from leakscope.user_code import import_code

FILE = '''
"""The largest error of a pixel."""

from leakscope.metrics import Metric
from leakscope.metrics.metric import of_pairs


def worst_pixel(x, y):
    return (x - y).abs().amax((1, 2, 3))


WORST_PIXEL = Metric(
    name="worst_pixel",
    label="worst",
    description="largest absolute difference of a pixel, mean over images",
    meaning="How far off the pixel is that was rebuilt worst.",
    higher_is_better=False,
    measure=of_pairs(worst_pixel),
    unit="px",
    digits=2,
)
'''
REQUEST = Request(model="cnn-mnist", n=2, epochs=1, iterations=2, attacks=["sme"])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditResult]:
    file = tmp_path_factory.mktemp("metric") / "worst_pixel.py"
    file.write_text(FILE)
    METRICS["worst_pixel"] = import_code(str(file)).WORST_PIXEL
    yield run_cells(REQUEST.cells(), file.parent / "run", REQUEST, execute=choose_executor(workers=1))
    del METRICS["worst_pixel"]


def test_it_is_computed_with_all_that_other_metrics_have(audited: AuditResult) -> None:
    (cell,) = audited.cells
    assert 0 < cell["metrics"]["worst_pixel"] <= 1
    assert 0 < cell["metrics"]["worst_pixel_best"] <= 1
    assert 0 < cell["baseline"]["worst_pixel"] <= 1
    values = cell["per_image"]["worst_pixel"]
    assert sum(values) / len(values) == pytest.approx(cell["metrics"]["worst_pixel"])


def test_the_terminal_shows_it(audited: AuditResult) -> None:
    from leakscope.cli.audit import table_of

    console = Console(width=100)
    with console.capture() as captured:
        console.print(table_of(audited))
    first, second, row = captured.get().splitlines()
    assert "worst" in first
    assert first.index("worst") + len("worst") == second.index(" px") + len(" px")
    assert f"{audited.cells[0]['metrics']['worst_pixel']:.2f}" in row


def test_the_report_shows_and_explains_it(audited: AuditResult) -> None:
    page = audited.report.read_text()
    assert '<th scope="col">Worst</th>' in page
    assert f"<td>{audited.cells[0]['metrics']['worst_pixel']:.2f}</td>" in page
    assert "How far off the pixel is that was rebuilt worst." in page


def test_tables_of_the_paper_and_results_have_it(audited: AuditResult) -> None:
    (cell,), (record,) = REQUEST.cells(), audited.records
    row = brief(record, cell)
    assert row["metrics"]["worst_pixel"] == record.metrics["worst_pixel"]
    kept = Record.taken_over({**row, "source": "mine.json", "commit": ""}, cell)
    target = read_target("table2").model_copy(update={"metrics": ("psnr", "worst_pixel")})
    _, rows = table(lines_of(Entry(target, target.settings[0], "sme", (REQUEST,)), [kept]))
    assert ["worst", "–", f"{record.metrics['worst_pixel']:.2f}"] in [row[2:5] for row in rows]


@pytest.mark.usefixtures("audited")
def test_it_can_be_tuned_by_and_is_listed() -> None:
    from leakscope.cli.catalogue import live

    study = Study(
        attack="sme",
        ranges=(Range.parse("tv=0:0.1"),),
        request=REQUEST,
        tune_on=("1",),
        report_on=(),
        metric="worst_pixel",
    )
    assert list(study.problems()) == []
    listed = {row["name"]: row for row in live()["metrics"]}
    assert listed["worst_pixel"]["meaning"] == METRICS["worst_pixel"].meaning
    assert not listed["worst_pixel"]["higher_is_better"]
