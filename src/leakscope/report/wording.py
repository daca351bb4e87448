"""The words of the report: what was assumed, what a real server would have, what the numbers mean and do not mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakscope.cells.record import ClientFacts, Record
from leakscope.verdict.levels import Level

HEADLINES: dict[Level, str] = {
    "high": "Private images can be rebuilt from the update",
    "medium": "Some private images can be recognised from the update",
    "low": "The update gives away traces of private images",
    "none": "No attack in this run succeeded",
    "unknown": "This run could not be scored",
}


@dataclass(frozen=True)
class Assumption:
    """One thing the attacker was given, next to what a real server would have."""

    what: str
    here: str
    real: str


LABELS = {
    "known": "the labels of all images, without their order",
    "counts": "how often each label occurs",
    "recovered": "nothing; estimated from the update",
    "none": "nothing",
}
MODES = {
    "eval": "evaluation mode (no dropout, fixed batch-norm statistics): the easiest case",
    "train": "training mode",
}


def short_assumptions(cells: Sequence[Record]) -> tuple[str, ...]:
    """What the first screen says about the attacker."""
    clients = [cell.client for cell in cells]
    defenses = [name for name in dict.fromkeys(cell.defense for cell in cells) if name != "none"]
    fused = [cell.fuse for cell in cells if cell.fuse]
    sees = f"updates mixed over clients ({spread(fused)})" if fused else "the update of one client"
    return (
        "The attacker is the server itself: it follows the protocol and keeps what it sees.",
        f"It sees the model it sent and {sees}, {f'defended by {spread(defenses)}' if defenses else 'undefended'}"
        f"{' or undefended' if defenses and len(defenses) < len({cell.defense for cell in cells}) else ''}.",
        f"The client trained {counted(clients, 'epochs', 'epoch')} on {counted(clients, 'n', 'image')} "
        f"of {spread(cell.dataset for cell in cells)} "
        f"from {_start(cells)}, in {_of_client(cells, 'mode')} mode.",
        f"Of the labels it has {_labels(cells)}.",
        f"Other images of the same kind: {'yes' if any(c.knowledge.auxiliary for c in cells) else 'none'}.",
    )


def assumptions(cells: Sequence[Record]) -> tuple[Assumption, ...]:
    """The knowledge table."""
    return tuple(row(cells) for row in ROWS)


def _model(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "The global model before the round",
        f"yes: {spread(cell.model for cell in cells)}, {_start(cells)}",
        "Yes, the server sent it. A model late in training usually leaks less than a fresh one.",
    )


def _update(cells: Sequence[Record]) -> Assumption:
    fused = spread(cell.fuse or "a single client's" for cell in cells)
    return Assumption(
        "The update",
        f"yes, {fused}; defense: {spread(cell.defense for cell in cells)}",
        "Yes, after whatever the client applied to it. With secure aggregation only the sum over clients.",
    )


def _architecture(cells: Sequence[Record]) -> Assumption:
    steps = spread(cell.client.steps for cell in cells)
    return Assumption(
        "Architecture, loss and training settings",
        f"yes: epochs {_of_client(cells, 'epochs')}, batch size {_of_client(cells, 'batch_size')}, "
        f"rate {_of_client(cells, 'lr')}, {_of_client(cells, 'optimizer')}, {steps} steps",
        "Usually: the server hands them out. The order of the batches was not granted.",
    )


def _count(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "Number of images",
        f"yes: {_of_client(cells, 'n')}",
        "Usually: federated averaging weights clients by it.",
    )


def _label_row(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "Labels",
        _labels(cells),
        "Not told, but the last layer of the update often gives the label counts away.",
    )


def _normalisation(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "Normalisation of the images",
        spread("yes" if cell.knowledge.normalisation else "no, guessed" for cell in cells),
        "Usually public, as mean and deviation of the data set.",
    )


def _auxiliary(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "Other images of the same kind",
        spread("yes" if cell.knowledge.auxiliary else "no" for cell in cells),
        "Possible: public data, or images of other clients. They make attacks stronger.",
    )


def _mode(cells: Sequence[Record]) -> Assumption:
    return Assumption(
        "Client's mode while training",
        spread(MODES.get(str(cell.client.mode), "not recorded") for cell in cells),
        "Real clients mostly run in training mode: harder to attack where the model has batch norm or dropout.",
    )


ROWS: tuple[Callable[[Sequence[Record]], Assumption], ...] = (
    _model,
    _update,
    _architecture,
    _count,
    _label_row,
    _normalisation,
    _auxiliary,
    _mode,
)

CAVEATS = (
    "A low level says that these attacks, with this effort, did not succeed. It is not a proof of privacy: a stronger "
    "attack, more iterations or more knowledge can only find more.",
    "A high level holds under the assumptions listed above. Take one away and it may fall; add one and it may rise.",
    "The guess is an image made without the update (a constant or the mean image). What it reaches was known before "
    "anything was sent.",
    "Averages hide people. The level is set by the worst image and the worst client, not by the mean.",
    "Epsilon of differential privacy is a guarantee about every attack; leakage is a measurement of a few. They are "
    "shown side by side and never merged.",
)


def spread(values: Iterable[object]) -> str:
    """The different values in order, joined; the word `several` where there are too many.

    >>> spread([10, 10, 50]), spread([None])
    ('10, 50', 'unknown')
    """
    seen = list(dict.fromkeys(values))
    names = ["unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in seen]
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def counted(clients: Sequence[ClientFacts], name: str, noun: str) -> str:
    """`1 epoch`, `5, 20 epochs`.

    >>> counted([ClientFacts(n=4), ClientFacts(n=8)], "n", "image"), counted([ClientFacts(n=1)], "n", "image")
    ('4, 8 images', '1 image')
    """
    count = spread(getattr(client, name) for client in clients)
    return f"{count} {noun}{'' if count == '1' else 's'}"


def _of_client(cells: Sequence[Record], name: str) -> str:
    return spread(getattr(cell.client, name) for cell in cells)


def _labels(cells: Sequence[Record]) -> str:
    return spread(LABELS.get(str(cell.knowledge.labels), "not recorded") for cell in cells)


def _start(cells: Sequence[Record]) -> str:
    return spread(describe_start(cell.w0) for cell in cells)


STARTS = {
    "": "untrained weights",
    "fresh": "untrained weights",
    "own": "the weights that its model is built with",
    "recorded": "the weights in the update file",
}


def describe_start(w0: str) -> str:
    """`fresh`, `own`, `recorded`, `pretrain:epochs=3` or a file, in words."""
    if w0.startswith("pretrain"):
        return f"weights trained before ({w0})"
    return STARTS.get(w0) or f"weights from {Path(w0).name}"
