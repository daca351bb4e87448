"""No defense at all, so that `none` can be named wherever a defense can."""

from __future__ import annotations

from dataclasses import dataclass

from leakscope.client.training import Client
from leakscope.defenses.base import Checked
from leakscope.types import Update


@dataclass(frozen=True, kw_only=True)
class Undefended(Checked):
    """The update as training left it."""

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """The same update."""
        return update
