"""What a server sees when the updates of several clients are mixed before it can look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from leakscope.errors import Problem, refusal, refuse
from leakscope.options import Range, build, out_of_range, parse_pairs, write
from leakscope.types import Update, Weights, stream


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """The target's update is mixed with those of `clients` others: rho * target + (1 - rho) * mean(others)."""

    rho: Annotated[float, Range("(0, 1]")] = 0.75
    clients: Annotated[int, Range("[1, inf)")] = 4

    def __post_init__(self) -> None:
        refuse(out_of_range(self, kind="fusion", advice="--fuse rho=0.75,clients=4"))

    def __str__(self) -> str:
        """The canonical option string, with both options."""
        return f"rho={write(self.rho)},clients={self.clients}"


def parse_fusion(text: str) -> Fusion:
    """`rho=0.75,clients=4`; `rho=mean` is what secure aggregation reveals, the plain mean: rho = 1 / (clients + 1).

    >>> str(parse_fusion("rho=mean,clients=4"))
    'rho=0.2,clients=4'
    """
    pairs = parse_pairs(text)
    if pairs.get("rho") != "mean":
        return build(Fusion, pairs, kind="fusion")
    fusion = build(Fusion, {key: value for key, value in pairs.items() if key != "rho"}, kind="fusion")
    return replace(fusion, rho=1 / (fusion.clients + 1))


def fuse(target: Update, others: Sequence[Update], rho: float) -> Update:
    """rho * target + (1 - rho) * mean(others), with the target's w0, n and training; rho = 1 is the target itself."""
    if rho == 1:
        return target
    refuse(_mismatches(target, others))
    delta = _mixed(target.delta, [other.delta for other in others], rho)
    after = _mixed(target.buffers_after, [other.buffers_after for other in others], rho)
    notes = {"fusion": {"rho": rho, "clients": len(others)}}
    return replace(target, delta=delta, buffers_after=after, notes={**target.notes, **notes})


def _mixed(target: Weights, others: Sequence[Weights], rho: float) -> dict[str, Tensor]:
    """Tensor by tensor; counters are the target's own, and what another client did not send is left out."""
    mixed = {}
    for name, own in target.items():
        if not own.is_floating_point():
            mixed[name] = own
        elif all(name in other for other in others):
            rest = torch.stack([other[name].to(own) for other in others]).mean(dim=0)
            mixed[name] = rho * own + (1 - rho) * rest
    return mixed


def other_seeds(target: int, count: int) -> tuple[int, ...]:
    """`count` different seeds of other clients, drawn from the target's seed; never the target's own."""
    generator = stream(target, "fused clients")
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        seed = int(torch.randint(0, 2**31 - 1, (), generator=generator))
        if seed != target:
            chosen[seed] = None
    return tuple(chosen)


def _mismatches(target: Update, others: Sequence[Update]) -> list[Problem]:
    if not others:
        raise refusal("there is no other update to fuse with", fix="give at least one, or rho = 1")
    shapes = [{name: value.shape for name, value in each.delta.items()} for each in (target, *others)]
    why, fix = "only updates of the same model can be added up", "train every client from the same w0"
    return [
        Problem(f"update {place} has other tensors than the target's", why, fix)
        for place, other in enumerate(shapes[1:])
        if other != shapes[0]
    ]
