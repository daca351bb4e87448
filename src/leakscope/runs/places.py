"""Where a worker finds data and metric weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """Folders; None leaves the choice to the environment of the process that reads."""

    data_root: Path | None = None
    weights: Path | None = None
