"""The dashboard in a real browser, with a real audit: started from the form, watched, stopped, resumed, compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browsing import DESKTOP, PHONE
from sample_run import write_run

pytestmark = pytest.mark.browser

Serving = Callable[..., Any]
PICTURE = "document.querySelector('canvas')?.toDataURL()"
SCALE = "document.querySelector('canvas').clientWidth / document.querySelector('canvas').width"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def sample(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two finished runs and a broken one."""
    runs = tmp_path_factory.mktemp("dashboard") / "runs"
    write_run(runs / "before", attacks=("ig", "sme"), n=4)
    write_run(runs / "after", attacks=("ig", "sme"), defenses=("gaussian:std=0.1", "none"), n=4)
    (runs / "broken").mkdir()
    (runs / "broken" / "result.json").write_text("{")
    return serving(runs)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_clean_fits_and_is_accessible(
    visit: Any, violations: Callable[[Any], list[str]], sample: Any, viewport: dict[str, int], scheme: str
) -> None:
    with visit(sample.entry, viewport=viewport, color_scheme=scheme) as seen:
        for path in ("/", "/new", "/runs/before", "/runs/broken", "/compare", "/compare?a=before&b=after"):
            seen.page.goto(sample.url + path)
            if path == "/":
                seen.page.locator(".runs .state").nth(2).wait_for()
            assert seen.page.evaluate(OVERFLOW) <= 0
            assert violations(seen.page) == []
        assert seen.complaints == []
        assert seen.asked_outside(sample.url) == []
        assert "token" not in seen.page.url


def test_the_list_tells_state_and_level(visit: Any, sample: Any) -> None:
    with visit(sample.entry) as seen:
        line = seen.page.locator('.runs [data-name="before"]')
        line.wait_for()
        assert "finished" in line.inner_text()
        assert line.locator(".badge").inner_text() in ("low", "medium", "high", "none")
        assert "is damaged" in seen.page.locator('.runs [data-name="broken"]').inner_text()


def test_comparing_shows_images_sharp_and_the_change(visit: Any, sample: Any) -> None:
    with visit(sample.entry) as seen:
        seen.page.goto(sample.url + "/compare?a=before&b=after")
        factors = seen.page.evaluate("[...document.images].map((one) => one.clientWidth / one.naturalWidth)")
        assert len(factors) == 16
        assert set(factors) == {3}
        assert seen.page.locator("tbody tr").count() == 4
        change = seen.page.locator("tbody tr", has_text="ig · undefended").locator("td").last.inner_text()
        assert re.fullmatch(r"[+−]0\.00 dB", change)


def test_a_form_with_mistakes_keeps_what_was_typed_and_says_all(visit: Any, sample: Any) -> None:
    with visit(sample.entry) as seen:
        page = seen.page
        page.goto(sample.url + "/new")
        page.fill("#name", "mine")
        page.fill("#n", "4")
        page.fill("#batch_size", "50")
        page.fill("#other_defenses", "clipp:bound=4")
        page.get_by_role("button", name="Start the audit").click()
        alert = page.get_by_role("alert")
        assert "did you mean 'clip'" in alert.inner_text()
        assert page.input_value("#other_defenses") == "clipp:bound=4"
        assert page.input_value("#name") == "mine"
        page.fill("#other_defenses", "")
        page.get_by_role("button", name="Start the audit").click()
        assert "--batch-size 50 is larger than --n 4" in page.get_by_role("alert").inner_text()


def test_a_report_opens_in_its_sandbox_and_downloads(visit: Any, sample: Any) -> None:
    with visit(sample.entry) as seen:
        page = seen.page
        page.goto(sample.url + "/runs/before")
        page.get_by_role("link", name="Open the report").click()
        page.get_by_role("heading", name="What leaked").wait_for()
        page.locator("#picker").select_option(index=1)
        assert page.locator("#strip-chosen .trio").count() == 4
        assert page.evaluate("origin") == "null"
        page.go_back()
        for name in ("Download it", "Download redacted"):
            with page.expect_download() as download:
                page.get_by_role("link", name=name).click()
            text = Path(download.value.path()).read_text(encoding="utf-8")
            assert ("Redacted" in text) is ("redacted" in name)
        assert seen.complaints == []


def test_an_audit_from_the_form_to_the_report(visit: Any, serving: Serving, tmp_path: Path) -> None:
    """The real command: started, watched while it optimises, stopped, resumed, finished, read."""
    server = serving(tmp_path / "runs")
    with visit(server.entry) as seen:
        page = seen.page
        page.get_by_role("link", name="Start an audit").click()
        for field, value in {"name": "real", "n": "4", "epochs": "1", "iterations": "300"}.items():
            page.fill(f"#{field}", value)
        for box in page.locator("input[name=attack]").all():
            box.set_checked(box.get_attribute("value") == "ig")
        page.get_by_role("button", name="Start the audit").click()
        page.wait_for_url("**/runs/real")
        page.locator("canvas[data-painted]").wait_for(timeout=90_000)
        assert page.evaluate(SCALE) in (2, 3, 4)
        assert "iteration " in page.locator(".live .facts").inner_text()

        page.get_by_role("button", name="Stop").click()
        page.locator("#state.state-stopped").wait_for(timeout=60_000)
        assert "interrupted" in page.locator("#cells").inner_text()
        assert 0 < int(page.locator("#cells td").nth(2).inner_text()) < 300

        page.get_by_role("button", name="Resume").click()
        page.locator("canvas[data-painted]").wait_for(timeout=60_000)
        picture = page.evaluate(PICTURE)
        page.wait_for_function(f"before => ({PICTURE} ?? before) !== before", arg=picture, timeout=90_000)
        page.locator("#state.state-finished").wait_for(timeout=120_000)
        page.get_by_role("link", name="Open the report").click()
        page.get_by_role("heading", name="Under which assumptions").wait_for()
        assert page.locator("#strip-first .trio").count() == 4
        assert seen.complaints == []
        assert seen.asked_outside(server.url) == []
    events = next((tmp_path / "runs" / "real" / "cells").glob("*/events.jsonl")).read_text()
    assert events.count('"event": "start"') == 2
