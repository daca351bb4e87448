"""Label counts from the update alone: what an attacker who is granted no labels finds out first.

The order of labels cannot be seen in an update, so counts per class are all there is to recover.
"""

from __future__ import annotations

from torch import Tensor

from leakscope.labels.counting import expand, label_error, largest_remainder, relabel
from leakscope.labels.evidence import Evidence
from leakscope.labels.geng import geng
from leakscope.labels.identity import bias_identity
from leakscope.labels.refine import refine_counts
from leakscope.types import LocalTraining, Weights
from leakscope.victims import Victim


def recover_counts(victim: Victim, w0: Weights, delta: Weights, training: LocalTraining, n: int) -> Tensor:
    """Counts (K,) int64 of the n private labels, from what crosses the firewall.

    By the bias identity, or by the rule of Geng et al. where the last layer has no bias.
    """
    evidence = Evidence(victim, w0, delta, training, n)
    return largest_remainder((geng if evidence.bias is None else bias_identity)(evidence), n)


__all__ = [
    "Evidence",
    "expand",
    "label_error",
    "largest_remainder",
    "recover_counts",
    "refine_counts",
    "relabel",
]
