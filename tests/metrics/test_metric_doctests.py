"""The numbers printed in the docstrings are the ones the code gives."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

from leakscope import metrics


@pytest.mark.parametrize(
    "name", [f"leakscope.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)]
)
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(name)
    results = doctest.testmod(module)
    assert results.failed == 0
    assert results.attempted == inspect.getsource(module).count(">>> ")
