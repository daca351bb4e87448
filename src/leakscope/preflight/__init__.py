"""Before any attack: is this update what it is said to be? All findings at once, each with its remedy.

The thresholds were set on development clients: FEMNIST writers 1, 2, 7 and 15 and photographs of seeds 1 and 2, with
cnn-mnist, cnn-cifar, mlp-tiny, vit and resnet8 in both modes, N = 8 to 50, E = 1 to 20, lr 0.004 and 0.05, fresh and
trained w0. Each lies between the largest value that a clean update showed and the smallest of the broken ones.
"""

from __future__ import annotations

from leakscope.errors import Finding, refuse
from leakscope.preflight.examination import examine
from leakscope.preflight.settings import settings


def refuse_errors(findings: tuple[Finding, ...]) -> None:
    """Raise one InputError for all findings that refuse the update."""
    refuse(finding.problem for finding in findings if finding.severity == "error")


__all__ = ["Finding", "examine", "refuse_errors", "settings"]
