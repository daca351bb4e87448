"""leakscope: what a federated-learning client gives away with its model update."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakscope.audits.audit import AuditResult as AuditResult
    from leakscope.audits.audit import audit as audit
    from leakscope.audits.checking import LeakError as LeakError
    from leakscope.audits.checking import assert_no_leak as assert_no_leak
    from leakscope.client.own import LocalClient as LocalClient
    from leakscope.observation.update_file import RecordedUpdate as RecordedUpdate
    from leakscope.observation.update_file import read_update as read_update
    from leakscope.observation.update_file import write_update as write_update
    from leakscope.types import LocalTraining as LocalTraining
    from leakscope.types import Normalisation as Normalisation

__version__ = "0.1.0"

_PLACES = {
    "AuditResult": "leakscope.audits.audit",
    "audit": "leakscope.audits.audit",
    "LeakError": "leakscope.audits.checking",
    "assert_no_leak": "leakscope.audits.checking",
    "LocalClient": "leakscope.client.own",
    "LocalTraining": "leakscope.types",
    "Normalisation": "leakscope.types",
    "RecordedUpdate": "leakscope.observation.update_file",
    "read_update": "leakscope.observation.update_file",
    "write_update": "leakscope.observation.update_file",
}
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> object:
    """Public names are imported on first use: torch takes seconds, `leakscope --help` should not."""
    if name not in _PLACES:
        raise AttributeError(f"module 'leakscope' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """The public names, those not yet imported too."""
    return sorted(__all__)
