"""leakscope: what a federated-learning client gives away with its model update."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakscope.audit import AuditResult as AuditResult
    from leakscope.audit import audit as audit
    from leakscope.checking import LeakError as LeakError
    from leakscope.checking import assert_no_leak as assert_no_leak
    from leakscope.local_client import LocalClient as LocalClient
    from leakscope.types import LocalTraining as LocalTraining
    from leakscope.types import Normalisation as Normalisation
    from leakscope.update_file import RecordedUpdate as RecordedUpdate
    from leakscope.update_file import read_update as read_update
    from leakscope.update_file import write_update as write_update

__version__ = "0.1.0"

_PLACES = {
    "AuditResult": "leakscope.audit",
    "audit": "leakscope.audit",
    "LeakError": "leakscope.checking",
    "assert_no_leak": "leakscope.checking",
    "LocalClient": "leakscope.local_client",
    "LocalTraining": "leakscope.types",
    "Normalisation": "leakscope.types",
    "RecordedUpdate": "leakscope.update_file",
    "read_update": "leakscope.update_file",
    "write_update": "leakscope.update_file",
}
__all__ = ["__version__", *_PLACES]


class _Package(ModuleType):
    """Keeps `leakscope.audit` the function: importing the module of that name would put itself in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """Public names are imported on first use: torch takes seconds, `leakscope --help` should not."""
    if name not in _PLACES:
        raise AttributeError(f"module 'leakscope' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
