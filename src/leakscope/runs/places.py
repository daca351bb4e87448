"""Where a worker finds data, metric weights, and a client that was given as an object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakscope.local_client import LocalClient


@dataclass(frozen=True)
class Places:
    """Folders; None leaves the choice to the environment of the process that reads."""

    data_root: Path | None = None
    weights: Path | None = None
    own: LocalClient | None = None
