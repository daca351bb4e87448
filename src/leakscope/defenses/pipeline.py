"""Defenses by name, and several of them in a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from leakscope.client.training import Client, train
from leakscope.defenses.base import Defense, TrainingDefense, Undefended
from leakscope.defenses.censor import Censor
from leakscope.defenses.clip import Clip
from leakscope.defenses.dpsgd import DPSGD
from leakscope.defenses.drop import Drop
from leakscope.defenses.dual_prune import DualPrune
from leakscope.defenses.gaussian import Gaussian
from leakscope.defenses.outpost import Outpost
from leakscope.defenses.quantize import Quantize
from leakscope.defenses.soteria import Soteria
from leakscope.defenses.sparsify import Sparsify
from leakscope.errors import InputError, Problem, each, refusal, refuse, unknown
from leakscope.options import build, canonical, parse_call
from leakscope.types import Update, Weights

Part = Defense | TrainingDefense

DEFENSES: dict[str, type[Part]] = {
    "none": Undefended,
    "sparsify": Sparsify,
    "clip": Clip,
    "gaussian": Gaussian,
    "soteria": Soteria,
    "quantize": Quantize,
    "dual-prune": DualPrune,
    "censor": Censor,
    "outpost": Outpost,
    "dpsgd": DPSGD,
    "drop": Drop,
}


@dataclass(frozen=True)
class Pipeline:
    """Defenses in the order in which they act: at most one inside training, then those on the update.

    Every strength says for itself whether it is meant for the update or the gradient, so units convert
    between parts.
    """

    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        refuse(_misplaced(self.parts))

    def __str__(self) -> str:
        """The canonical option string, `none` for no defense."""
        return "+".join(canonical(name_of(part), part) for part in self.parts) or "none"

    def check(self, client: Client) -> None:
        """Raise one InputError for everything that cannot work with this client, before any work starts."""
        each(lambda part: part.check(client.victim, client.training), self.parts)

    def train(self, client: Client, w0: Weights, *, seed: int, record: bool = False) -> Update:
        """The client's training from w0 with every defense applied; the notes gather what the parts say."""
        self.check(client)
        inside = [part for part in self.parts if isinstance(part, TrainingDefense)]
        gradients = inside[0].gradients(client, seed=seed) if inside else None
        order = inside[0].batches(client, seed=seed) if inside else None
        update = train(client, w0, gradients=gradients, order=order, record=record)
        if inside:
            update = inside[0].annotate(update, client)
        for part in self.parts:
            if isinstance(part, Defense):
                update = part(update, client=client, seed=seed)
        return replace(update, notes={"defense": str(self), **update.notes})


def parse_defense(text: str) -> Pipeline:
    """`none`, `sparsify:rate=0.9` or `clip:bound=1+gaussian:std=0.01`; every problem is reported at once.

    >>> str(parse_defense("clip:bound=1.0 + gaussian:std=0.010,on=gradient"))
    'clip:bound=1+gaussian:std=0.01'
    """
    pieces = split(text)

    def parse(piece: str) -> Part:
        call = parse_call(piece)
        if call.name not in DEFENSES:
            raise InputError(unknown("defense", call.name, DEFENSES))
        if call.name == "none" and len(pieces) > 1:
            raise refusal(f"{text!r} combines 'none' with a defense", fix="leave 'none' out")
        return build(DEFENSES[call.name], dict(call.options), kind=call.name)

    return Pipeline(tuple(part for part in each(parse, pieces) if not isinstance(part, Undefended)))


def split(text: str) -> list[str]:
    """The parts of an option string; the + of 1e+06 joins nothing.

    >>> split("clip:bound=1e+06 + gaussian:std=0.01")
    ['clip:bound=1e+06', 'gaussian:std=0.01']
    """
    return [piece.strip() for piece in re.split(r"\+(?=\s*[A-Za-z])", text)]


def name_of(part: Part) -> str:
    """The name a defense is registered under."""
    return next(name for name, kind in DEFENSES.items() if type(part) is kind)


def _misplaced(parts: tuple[Part, ...]) -> Iterator[Problem]:
    for name, count in Counter(name_of(part) for part in parts).items():
        if count > 1:
            yield Problem(f"{name!r} is applied {count} times", fix="apply each defense once")
    inside = [name_of(part) for part in parts if isinstance(part, TrainingDefense)]
    if len(inside) > 1:
        found = f"{' and '.join(map(repr, inside))} both compute the gradient of a local step"
        yield Problem(found, fix="choose one of them")
    elif inside and not isinstance(parts[0], TrainingDefense):
        why = "it acts during training, before there is an update to transform"
        yield Problem(f"{inside[0]!r} comes after another defense", why, fix=f"put {inside[0]} first")
