"""The numbers printed in the docstrings are the ones the code gives."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from leakscope import metrics

MODULES = [f"leakscope.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)]
WITH_EXAMPLES = {"assign", "baseline", "catalogue", "fsim", "identify", "intervals", "l_sim_fl", "psnr", "ssim"}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert (results.attempted > 0) == (name.rsplit(".", 1)[1] in WITH_EXAMPLES)
