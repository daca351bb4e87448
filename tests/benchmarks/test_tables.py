"""Numbers in README and docs are those of results/."""

import runpy
import sys
from pathlib import Path

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables.py"


def test_no_table_is_stale(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(TABLES), "--check"])
    runpy.run_path(str(TABLES), run_name="__main__")
