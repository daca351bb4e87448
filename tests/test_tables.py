"""Numbers in README and docs are those of results/."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_table_is_stale():
    done = subprocess.run(
        [sys.executable, "benchmarks/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
