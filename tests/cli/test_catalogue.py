"""What `leakscope list` shows is what the registries hold, and needs no torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from leakscope.cli.catalogue import KINDS, live, shipped
from leakscope.data import DATASETS
from leakscope.metrics import METRICS
from leakscope.plugins import OURS


@pytest.mark.parametrize("kind", KINDS)
def test_the_shipped_catalogue_is_what_is_registered(kind: str) -> None:
    ours = {"DATASETS": DATASETS, "METRICS": METRICS, **OURS}[
        kind.upper()
    ]  # a plugin of another test may have joined in this process
    known = [row for row in json.loads(json.dumps(live()[kind])) if row["name"] in ours]
    assert shipped()[kind] == known, "run `make catalogue`"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["list", "attacks"], ["list", "defenses"]])
def test_looking_around_does_not_import_torch(words: list[str]) -> None:
    code = "import sys\ntry:\n from leakscope.cli import main\n main()\nfinally:\n assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
