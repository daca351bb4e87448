"""Training settings under which an attack's own assumption does not hold: a low score then says less."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from leakscope.errors import Finding, warning
from leakscope.types import LocalTraining

ASSUMES = "the attacks take the update for a sum of gradients"
STRONG_DECAY = 0.01
"""lr T weight_decay from which on decay moves the weights by more than a hundredth of themselves."""


def settings(training: LocalTraining, module: nn.Module, n: int) -> list[Finding]:
    """One warning for each assumption that breaks."""
    return [found for check in CHECKS if (found := check(training, module, n)) is not None]


def _adam(training: LocalTraining, module: nn.Module, n: int) -> Finding | None:  # noqa: ARG001
    if training.optimizer != "adam":
        return None
    return warning(
        "optimiser",
        "the client trains with Adam",
        why=f"{ASSUMES}; Adam divides every coordinate by its own size, so a low score says little about what leaks",
        fix="audit the same client with SGD too, and take the higher level",
    )


def _momentum(training: LocalTraining, module: nn.Module, n: int) -> Finding | None:  # noqa: ARG001
    if not training.momentum:
        return None
    return warning(
        "momentum",
        f"the client trains with momentum {training.momentum:g}",
        why=f"{ASSUMES}; with momentum early batches count for more, which the straight path between w0 and wT ignores",
        fix="audit the same client with momentum 0 too, and take the higher level",
    )


def _decay(training: LocalTraining, module: nn.Module, n: int) -> Finding | None:  # noqa: ARG001
    if training.weight_decay * training.lr * training.steps(n) < STRONG_DECAY:
        return None
    return warning(
        "weight-decay",
        f"weight decay {training.weight_decay:g} is a visible part of the update",
        why=f"{ASSUMES}; a multiple of the weights was added to it",
        fix="audit the same client without decay too, and take the higher level",
    )


def _dropout(training: LocalTraining, module: nn.Module, n: int) -> Finding | None:  # noqa: ARG001
    active = any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in module.modules())
    if training.mode == "eval" or not active:
        return None
    return warning(
        "dropout",
        "the client trains with dropout",
        why="no attacker knows its masks; the attack uses their mean, and finds less than it would without",
        fix="audit in eval mode as well for an upper bound",
    )


def _batch_norm(training: LocalTraining, module: nn.Module, n: int) -> Finding | None:
    norms = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
    if training.mode == "eval" or not norms or training.batch_size >= n:
        return None
    return warning(
        "batch-norm",
        f"batch norm in train mode over batches of {training.batch_size}",
        why=f"the attack takes the statistics of all {n} dummy images together, the client those of each batch",
        fix="audit in eval mode as well for an upper bound",
    )


CHECKS: tuple[Callable[[LocalTraining, nn.Module, int], Finding | None], ...] = (
    _adam,
    _momentum,
    _decay,
    _dropout,
    _batch_norm,
)
