"""Run folders that several tests read and none changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_run import multiply, write_run

DEFENSES = ("none", "clip:bound=4", "sparsify:rate=0.9", "gaussian:std=0.1", "dpsgd:epsilon=1")


@pytest.fixture(scope="session")
def matrix_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three attacks against five defenses on two clients."""
    folder = tmp_path_factory.mktemp("runs") / "matrix"
    return write_run(folder, attacks=("ig", "sme", "nl-sme"), defenses=DEFENSES, seeds=(0, 1))


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cell of six grey images."""
    return write_run(tmp_path_factory.mktemp("runs") / "small", n=6, size=28, grey=True)


@pytest.fixture(scope="session")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 cells of 50 colour images."""
    folder = tmp_path_factory.mktemp("runs") / "large"
    return multiply(write_run(folder, attacks=("ig", "sme", "nl-sme", "fedleak"), defenses=DEFENSES, n=50), 10)
