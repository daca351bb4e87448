"""Soteria: the representation's most revealing features are cut out of the last layer's update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from leakscope.client.training import Client
from leakscope.defenses.base import POSITIVE, SHARE, Checked, changed, share
from leakscope.types import LocalTraining, Update, Weights
from leakscope.victims import Victim
from leakscope.victims.head import Head, blank, embeddings, find_head, find_layer


@dataclass(frozen=True, kw_only=True)
class Soteria(Checked):
    """Zero the columns j of the last linear layer's update with the lowest score (Sun et al. 2021).

    s_j = sum_i ||d r_ij / d x_i||_2 / (|r_ij| + c), where r (N, F) is what flows into the layer. The score
    is the authors' approximation of their bound; features that react strongly for their size are kept. It
    is taken once, at w0 on the client's own images; the floor(rate * F) lowest columns of the weight's
    update are zeroed, biases and earlier layers are not. `layer` names another linear layer. Scale-free:
    the same for update and gradient.
    """

    rate: Annotated[float, SHARE]
    c: Annotated[float, POSITIVE] = 0.1
    layer: str | None = None

    def check(self, victim: Victim, training: LocalTraining) -> None:
        """The layer must be there, with one feature vector per image."""
        weights = victim.weights()
        embeddings(victim, self._head(victim), weights, victim.buffers(), blank(victim, weights))

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:
        """Zero the masked columns and note how many."""
        head = self._head(client.victim)
        x = client.batch.normalisation.apply(client.batch.images)
        scores = sensitivity(client.victim, head, update.w0, update.buffers, x, c=self.c)
        cut = scores.argsort(stable=True)[: share(self.rate, len(scores))]
        columns = update.delta[head.weight].clone()
        columns[:, cut] = 0
        notes = {"soteria": {"layer": head.name, "features": len(scores), "pruned": len(cut)}}
        return changed(update, {**update.delta, head.weight: columns}, notes)

    def imitate(self, dummy: Weights, seen: Weights) -> dict[str, Tensor]:
        """Without the columns that the visible update lacks: its zeros give the mask away."""
        return {
            name: value * seen[name].ne(0).any(dim=0) if value.dim() == 2 else value for name, value in dummy.items()
        }

    def _head(self, victim: Victim) -> Head:
        return find_layer(victim, self.layer) if self.layer else find_head(victim)


def sensitivity(victim: Victim, head: Head, weights: Weights, buffers: Weights, x: Tensor, *, c: float) -> Tensor:
    """s (F,), one backward pass per feature: r_ij depends on x_i alone, so the sum over i is exact."""
    x = x.detach().requires_grad_()
    r = embeddings(victim, head, weights, buffers, x)
    scores = []
    for feature in r.unbind(dim=1):
        (jacobian,) = torch.autograd.grad(feature.sum(), x, retain_graph=True)
        scores.append((jacobian.flatten(1).norm(dim=1) / (feature.detach().abs() + c)).sum())
    return torch.stack(scores)
