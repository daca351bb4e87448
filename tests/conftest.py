"""What is collected, and a real browser for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from browsing import DESKTOP, Visit

torch.set_num_threads(1)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

Visiting = Callable[..., Any]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The files beside the tests hold helpers and no examples; some are programs."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser: the system's own Chromium, driven by playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `dev`)")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Visiting:
    """`with visit(url, viewport=PHONE) as seen:` opens a page and closes it again."""

    @contextmanager
    def visiting(url: str, **options: Any) -> Iterator[Visit]:
        context = chromium.new_context(**{"viewport": DESKTOP, **options})
        try:
            seen = Visit(context.new_page())
            seen.page.goto(url)
            yield seen
        finally:
            context.close()

    return visiting


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, fetched by npm for this session."""
    if shutil.which("npm") is None:
        pytest.skip("no npm on this machine, axe-core cannot be fetched")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "axe-core@4"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not fetch axe-core in time")
    if done.returncode:
        pytest.skip(f"npm could not fetch axe-core: {done.stderr.strip()[-200:]}")
    return Path(folder, "node_modules", "axe-core", "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def violations(axe: str) -> Callable[[Any], list[str]]:
    """What axe-core finds on a page that is serious or critical."""

    def scan(page: Any) -> list[str]:
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [
            f"{one['id']}: {node['html'][:120]} ({node['failureSummary'][:200]})"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    return scan
