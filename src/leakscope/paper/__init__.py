"""The paper's tables as data."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def reported(table: str) -> dict[str, Any]:
    """What the paper reports, e.g. `reported("table1")["femnist"]["nl-sme"]["psnr"]` -> [mean, deviation]."""
    values: dict[str, Any] = json.loads(files(__package__).joinpath(f"{table}.json").read_text())
    return values
