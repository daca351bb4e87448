"""Leakage as a unit test: `assert_no_leak(client)` fails where an attack gets more out of a client than is allowed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from leakscope.audits.audit import audit
from leakscope.cells.request import DEFAULT_ATTACK
from leakscope.client.own import LocalClient
from leakscope.verdict.gate import Ruling, rule
from leakscope.verdict.result import Result


class LeakError(AssertionError):
    """A client leaks more than is allowed, or nothing could be shown; `ruling` tells why, `report` where to look."""

    def __init__(self, ruling: Ruling, report: Path) -> None:
        self.ruling, self.report = ruling, report
        super().__init__("\n".join([ruling.reason, *ruling.notes, f"report: {report}"]))


def assert_no_leak(
    client: LocalClient | str,
    *,
    attack: str = DEFAULT_ATTACK,
    budget: str | None = "60s",
    level: str = "low",
    out: Path | None = None,
    **options: Any,
) -> Ruling:
    """Audit a client, a LocalClient or `client.py:client`, and raise a LeakError where it leaks above `level`.

    `options` are those of `leakscope.audit`, e.g. `defenses=["dpsgd:epsilon=1"]`. Without `out` the run folder is
    temporary: it is kept where the assertion fails, so that the report can be opened. A pass says that this attack,
    with this effort, did not get above the level; it is not a proof of privacy.
    """
    folder = Path(tempfile.mkdtemp(prefix="leakscope-")) if out is None else out
    found = audit(client=client, attacks=[attack], budget=budget, out=folder, **options)
    ruling = rule(Result.of(found.result), max_level=level)
    if not ruling.passed:
        raise LeakError(ruling, found.report)
    if out is None:
        shutil.rmtree(folder)
    return ruling
