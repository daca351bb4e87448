"""The report in a real browser: at desktop and phone width, in light and dark, by mouse and by keyboard."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browsing import DESKTOP, PHONE
from leakscope.report import render
from sample_run import write_run

pytestmark = pytest.mark.browser

SHARP = """() => [...document.images].filter((one) => one.offsetParent && one.src.startsWith("data:")).map((one) => ({
  natural: [one.naturalWidth, one.naturalHeight], shown: [one.clientWidth, one.clientHeight],
  rendering: getComputedStyle(one).imageRendering}))"""
CARDS = "[...document.querySelectorAll('.three article, .trio')].map((one) => one.scrollWidth - one.clientWidth)"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="session")
def matrix_page(matrix_run: Path) -> str:
    return render(matrix_run).as_uri()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_clean_sharp_and_accessible(
    visit: Any, violations: Callable[[Any], list[str]], matrix_page: str, viewport: dict[str, int], scheme: str
) -> None:
    with visit(matrix_page, viewport=viewport, color_scheme=scheme) as seen:
        images = seen.page.evaluate(SHARP)
        assert len(images) >= 30
        for image in images:
            factors = {s / n for s, n in zip(image["shown"], image["natural"], strict=True)}
            assert len(factors) == 1
            assert factors.pop() in (1, 2, 3)
            assert image["rendering"] == "pixelated"
        assert seen.page.evaluate(OVERFLOW) <= 0
        assert violations(seen.page) == []
        assert seen.complaints == []
        assert seen.asked_outside("file://") == []


@pytest.mark.parametrize("size", [16, 64, 160])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_images_of_every_size_fit(visit: Any, tmp_path: Path, size: int, viewport: dict[str, int]) -> None:
    with visit(render(write_run(tmp_path / "run", n=3, size=size)).as_uri(), viewport=viewport) as seen:
        assert seen.page.evaluate(OVERFLOW) <= 0
        shown = seen.page.evaluate(SHARP)
        assert max(seen.page.evaluate(CARDS)) <= 0
        if size < 100:  # larger ones are shrunk where three do not fit
            assert {image["shown"][0] / size for image in shown} <= {1, 2, 6}


def test_the_first_screen_holds_verdict_images_assumptions_and_advice(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page) as seen:
        for text in ("Private images can be rebuilt", "What leaked", "Under which assumptions", "What to do"):
            box = seen.page.get_by_role("heading", name=text).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < DESKTOP["height"]
        for article in seen.page.locator(".three article").all():
            box = article.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < DESKTOP["height"]


def test_another_cell_can_be_chosen(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page) as seen:
        page = seen.page
        first = page.locator("#strip-first img").first.get_attribute("src")
        page.locator("#picker").select_option(index=29)
        assert page.locator("#strip-first").is_hidden()
        assert page.locator("#strip-chosen .trio").count() == 10
        assert (
            page.locator("#strip-chosen img").first.evaluate("one => one.decode().then(() => one.naturalWidth)") == 32
        )
        page.locator("#picker").select_option(index=0)
        assert page.locator("#strip-chosen").is_hidden()
        assert page.locator("#strip-first img").first.get_attribute("src") == first
        assert seen.complaints == []


def test_a_field_of_the_table_leads_to_its_images(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page) as seen:
        seen.page.get_by_role("button", name="ig against gaussian:std=0.1").click()
        assert "ig · gaussian:std=0.1" in seen.page.locator("#strip-chosen .strip-title").inner_text()
        assert seen.page.evaluate("document.activeElement.id") == "h-images"


def test_zoom_by_keyboard_keeps_pixels_square(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page) as seen:
        page = seen.page
        page.locator(".trio").first.focus()
        page.keyboard.press("Enter")
        zoom = page.locator("#zoom")
        assert zoom.is_visible()
        name = page.locator("#zoom-title").inner_text()
        assert re.match(r"identified \d+\.\d dB", page.locator("#zoom-caption").inner_text())
        width = page.locator("#zoom img").first.evaluate("one => one.clientWidth / one.naturalWidth")
        assert width >= 6
        assert width == int(width)
        page.keyboard.press("ArrowRight")
        assert page.locator("#zoom-title").inner_text() != name
        page.keyboard.press("ArrowLeft")
        assert page.locator("#zoom-title").inner_text() == name
        page.keyboard.press("Escape")
        assert zoom.is_hidden()
        assert page.evaluate("document.activeElement.className") == "trio"


def test_prints_to_pdf(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page, viewport={"width": 718, "height": 1000}) as seen:  # A4 between its margins
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate(OVERFLOW) <= 0
        document = seen.page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    assert 2 <= document.count(b"/Type /Page\n") <= 12


def test_it_reads_without_script(visit: Any, matrix_page: str) -> None:
    with visit(matrix_page, java_script_enabled=False) as seen:
        assert seen.page.locator("#strip-first .trio").count() == 10
        assert seen.page.locator(".matrix").is_visible()


def test_two_hundred_cells_open_at_once(visit: Any, large_run: Path) -> None:
    address = render(large_run).as_uri()
    with visit("about:blank") as seen:
        start = time.perf_counter()
        seen.page.goto(address)
        assert time.perf_counter() - start < 5
        start = time.perf_counter()
        seen.page.locator("#picker").select_option(index=150)
        seen.page.locator("#strip-chosen .trio").first.wait_for()
        assert time.perf_counter() - start < 2
        assert "most leaked of 50 images" in seen.page.locator("#strip-chosen .strip-title").inner_text()
        assert seen.complaints == []
