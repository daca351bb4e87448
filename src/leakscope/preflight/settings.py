"""Training settings under which an attack's own assumption does not hold: a low score then says less."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from leakscope.errors import Finding, warning
from leakscope.types import LocalTraining

ASSUMES = "the attacks take the update for a sum of gradients"
STRONG_DECAY = 0.01
"""lr T weight_decay from which on decay moves the weights by more than a hundredth of themselves."""


def settings(training: LocalTraining, module: nn.Module, n: int) -> Iterator[Finding]:
    """One warning for each assumption that breaks."""
    if training.optimizer == "adam":
        yield warning(
            "optimiser",
            "the client trains with Adam",
            why=f"{ASSUMES}; Adam divides every coordinate by its own size, so a low score says little",
            fix="audit the same client with SGD too, and take the higher level",
        )
    if training.momentum:
        yield warning(
            "momentum",
            f"the client trains with momentum {training.momentum:g}",
            why=f"{ASSUMES}; with momentum early batches count for more, which the straight path from w0 to wT ignores",
            fix="audit the same client with momentum 0 too, and take the higher level",
        )
    if training.weight_decay * training.lr * training.steps(n) >= STRONG_DECAY:
        yield warning(
            "weight-decay",
            f"weight decay {training.weight_decay:g} is a visible part of the update",
            why=f"{ASSUMES}; a multiple of the weights was added to it",
            fix="audit the same client without decay too, and take the higher level",
        )
    if training.mode == "eval":
        return
    parts = list(module.modules())
    if any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in parts):
        yield warning(
            "dropout",
            "the client trains with dropout",
            why="no attacker knows its masks; the attack uses their mean, and finds less than it would without",
            fix="audit in eval mode as well for an upper bound",
        )
    if training.batch_size < n and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in parts):
        yield warning(
            "batch-norm",
            f"batch norm in train mode over batches of {training.batch_size}",
            why=f"the attack takes the statistics of all {n} dummy images together, the client those of each batch",
            fix="audit in eval mode as well for an upper bound",
        )
