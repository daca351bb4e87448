"""Where a worker finds data, metric weights, and a client that was given as an object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakscope.client.own import LocalClient


@dataclass(frozen=True)
class Places:
    """Folders; None leaves the choice to the environment of the process that reads."""

    data_root: Path | None = None
    weights: Path | None = None
    own: LocalClient | None = None
    priors: Path | None = None
    """A folder with a diffusion prior for each data set, under the data set's name."""

    def prior_of(self, dataset: str) -> str | None:
        """The prior for a data set, where there is one."""
        folder = None if self.priors is None else self.priors / dataset
        return str(folder) if folder is not None and folder.is_dir() else None
