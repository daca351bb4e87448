"""The pytest plugin: a fixture `assert_no_leak` in every test suite of an environment that has leakscope.

Nothing is imported before a test asks for the fixture: torch takes seconds, and most tests do not leak.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(name="assert_no_leak")
def assert_no_leak_fixture(tmp_path: Path) -> Callable[..., Any]:
    """`assert_no_leak(client, attack=..., budget="60s", level="low")`, with the run folder in `tmp_path`."""
    from leakscope.audits.checking import assert_no_leak

    count = iter(range(1_000_000))

    def check(client: Any, **options: Any) -> Any:
        return assert_no_leak(client, **{"out": tmp_path / f"leakscope-{next(count)}", **options})

    return check


def __getattr__(name: str) -> Any:
    """`from leakscope.integrations.pytest_plugin import assert_no_leak` gives the function itself."""
    if name != "assert_no_leak":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from leakscope.audits.checking import assert_no_leak

    return assert_no_leak
