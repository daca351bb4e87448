"""Label counts from the update alone: what an attacker who is granted no labels finds out first.

The order of labels cannot be seen in an update, so counts per class are all there is to recover.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from leakscope.errors import InputError, unknown
from leakscope.labels.counting import expand, label_error, largest_remainder, relabel
from leakscope.labels.evidence import Evidence
from leakscope.labels.identity import bias_identity
from leakscope.labels.refine import refine_counts
from leakscope.labels.rules import geng, idlg, ilrg, llg, llg_bias
from leakscope.types import LocalTraining, Weights
from leakscope.victims import Victim

METHODS: dict[str, Callable[[Evidence], Tensor]] = {
    "bias-identity": bias_identity,
    "idlg": idlg,
    "llg": llg,
    "llg-bias": llg_bias,
    "ilrg": ilrg,
    "geng": geng,
}


def recover_counts(
    victim: Victim,
    w0: Weights,
    delta: Weights,
    training: LocalTraining,
    n: int,
    *,
    method: str | None = None,
) -> Tensor:
    """Counts (K,) int64 of the n private labels, from what crosses the firewall.

    The bias identity by default, the rule of Geng et al. where the last layer has no bias.
    """
    evidence = Evidence(victim, w0, delta, training, n)
    name = method or ("geng" if evidence.head.bias is None else "bias-identity")
    if name not in METHODS:
        raise InputError(unknown("label method", name, METHODS))
    return largest_remainder(METHODS[name](evidence), n)


__all__ = [
    "METHODS",
    "Evidence",
    "expand",
    "label_error",
    "largest_remainder",
    "recover_counts",
    "refine_counts",
    "relabel",
]
