"""OUTPOST: pruning everywhere, noise where the update carries most information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from leakscope.client.training import Client
from leakscope.defenses.base import FINITE, SHARE, Checked, Unit, changed, share, unit
from leakscope.defenses.sparsify import sparsified
from leakscope.options import Range
from leakscope.types import Update, Weights, stream


@dataclass(frozen=True, kw_only=True)
class Outpost(Checked):
    """Risk-aware pruning and noise (Wang et al., INFOCOM 2023), with probability 1 / (1 + beta * iteration).

    Per layer l: the risk is v_l = min(Var(w_l), 1) at w0; the `prune` share of smallest magnitudes is
    zeroed; the Fisher proxy is F = mean of g² over the first dimension; N(0, (noise * v_l)²) is added where
    F belongs to the top `fisher` share over all layers. Acts on the accumulated gradient by default
    (`on=update`: on w0 - wT). `iteration` is how far the federation has come; at 0 the defense always acts.
    """

    noise: Annotated[float, FINITE] = 0.8
    prune: Annotated[float, SHARE] = 0.8
    fisher: Annotated[float, Range("[0, 1]")] = 0.4
    beta: Annotated[float, FINITE] = 0.125
    iteration: Annotated[int, FINITE] = 0
    on: Unit = "gradient"

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Prune and perturb, or pass where the draw says so."""
        generator = stream(seed, "outpost defense")
        acts = float(torch.rand((), generator=generator)) < 1 / (1 + self.beta * self.iteration)
        if not acts:
            return changed(update, update.delta, {"outpost": {"acts": False}})
        pruned = sparsified(update.delta, self.prune, "tensor")
        marked = informative(update.delta, self.fisher)
        scale = self.noise * unit(self.on, update.training)
        delta = {}
        for name, value in pruned.items():
            drawn = torch.randn(value.shape, generator=generator).to(value)
            delta[name] = value + scale * risk(update.w0[name]) * drawn * marked[name]
        return changed(update, delta, {"outpost": {"acts": True}})


def risk(weight: Tensor) -> float:
    """v = min(Var(w), 1); a single weight has no spread."""
    return min(float(weight.float().var()), 1.0) if weight.numel() > 1 else 0.0


def informative(delta: Weights, top: float) -> dict[str, Tensor]:
    """Where the Fisher proxy is among the `top` share of all its entries; broadcasts over each tensor."""
    fisher = {name: value.square().mean(dim=0) if value.ndim else value.square() for name, value in delta.items()}
    flat = torch.cat([value.flatten() for value in fisher.values()])
    marked = torch.zeros_like(flat)
    marked[flat.argsort(descending=True, stable=True)[: share(top, flat.numel())]] = 1
    pieces = torch.split(marked, [value.numel() for value in fisher.values()])
    return {name: piece.view_as(value) for (name, value), piece in zip(fisher.items(), pieces, strict=True)}
