"""The fixture that every test suite has beside leakscope: this one, too, and by the entry point alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import leakscope
from leakscope.integrations import pytest_plugin
from own_clients import own

QUICK = {"attack": "sme", "budget": None, "iterations": 2}


def test_a_suite_has_the_fixture_without_asking(
    assert_no_leak: Callable[..., Any], pytestconfig: pytest.Config, tmp_path
) -> None:
    assert pytestconfig.pluginmanager.get_plugin("leakscope") is pytest_plugin
    assert assert_no_leak(own(), level="high", **QUICK).passed
    assert assert_no_leak(own(), level="high", **QUICK).passed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leakscope-0", "leakscope-1"]


def test_the_function_can_be_imported_from_it() -> None:
    from leakscope.integrations.pytest_plugin import assert_no_leak

    assert assert_no_leak is leakscope.assert_no_leak
