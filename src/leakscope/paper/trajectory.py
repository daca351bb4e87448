"""The client's true trajectory: how far it is from the straight line (appendix C), and theorem 1's bound on it.

Both train the client twice: once to learn where it ends, once to look at every state on the way, so that no
trajectory has to be kept (250 states of CNNcifar are 1.7 GB).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from leakscope import data
from leakscope.cells.scene import make_client
from leakscope.cells.spec import Cell
from leakscope.client.start import starting_weights
from leakscope.client.training import Client, batch_gradient, train
from leakscope.types import Weights, stream
from leakscope.victims import Victim

PROBES = 5
"""Places on the trajectory at which the Hessian's norm is estimated, evenly spread."""
POWER_STEPS = 10


def linear_error(cell: Cell, *, data_root: Path | None = None) -> dict[str, float]:
    """E_lin(T) = 1/T sum_tau ||w_tau - w_lin(tau / T)|| of appendix C."""
    seen = _walk(cell, data_root, lambda *_: None)
    return {"linear_error": seen.distance / seen.steps}


def theorem1(cell: Cell, *, data_root: Path | None = None) -> dict[str, float]:
    """Both sides of eq. 4 for the straight line: ||dw - dw~|| <= lr L sum_tau ||w_tau - w~_tau||.

    phi_tau is the gradient of the mini-batch of step tau, the theorem's own phi where the batch is everything. L is
    not chosen to make the bound true: it is the largest spectral norm of the Hessian, by power iteration, at true
    and surrogate states and half-way between them. ReLU networks have kinks, so that phi is Lipschitz only piecewise.
    """
    gap: dict[str, Tensor] = {}
    largest = {"secant": 0.0, "lipschitz": 0.0}

    def compare(state: Weights, line: Weights, tau: int, victim: Victim, *batch: Any) -> None:
        change = _minus(batch_gradient(victim, state, *batch), batch_gradient(victim, line, *batch))
        for name, value in change.items():
            gap[name] = gap.get(name, torch.zeros_like(value)) + cell.client.lr * value
        apart = _norm(_minus(state, line))
        if apart > 0:
            largest["secant"] = max(largest["secant"], _norm(change) / apart)
        if tau % max(1, math.ceil(cell.client.training.steps(cell.client.n) / PROBES)) == 0:
            middle = {name: torch.lerp(state[name], line[name], 0.5) for name in state}
            norms = [_hessian_norm(victim, w, *batch, seed=tau) for w in (state, middle, line)]
            largest["lipschitz"] = max(largest["lipschitz"], *norms)

    seen = _walk(cell, data_root, compare)
    mismatch, bound = _norm(gap), cell.client.lr * largest["lipschitz"] * seen.distance
    return {"mismatch": mismatch, "bound": bound, "ratio": mismatch / bound if bound else math.inf, **largest}


Look = Callable[..., None]
"""(true state, state on the line, tau, victim, buffers, x, y)."""


@dataclass
class _Walk:
    """What a second training along a known line adds up."""

    client: Client
    first: Weights
    last: Weights
    look: Look
    steps: int = 0
    distance: float = 0.0

    def gradient(self, victim: Victim, state: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        total = self.client.training.steps(len(self.client.batch))
        line = {name: torch.lerp(self.first[name], self.last[name], self.steps / total) for name in state}
        self.distance += _norm(_minus(state, line))
        self.look(state, line, self.steps, victim, buffers, x, y)
        self.steps += 1
        return batch_gradient(victim, state, buffers, x, y)


def _walk(cell: Cell, data_root: Path | None, look: Look) -> _Walk:
    dataset = data.load(cell.client.dataset, root=data_root)
    client = make_client(cell.client, dataset, cell.client.seed)
    w0 = starting_weights(cell.client.w0, client.victim, dataset, avoid=client.batch, seed=cell.client.seed)
    walk = _Walk(client, w0, _minus(w0, train(client, w0).delta), look)
    train(client, w0, gradients=walk.gradient)
    return walk


def _hessian_norm(victim: Victim, weights: Weights, buffers: Weights, x: Tensor, y: Tensor, *, seed: int) -> float:
    """The largest |eigenvalue| of the Hessian of the mini-batch loss, by power iteration: a lower estimate."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    loss = functional.cross_entropy(victim.call(leaves, buffers, x), y)
    slopes = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
    draw = stream(seed, "power iteration")
    direction = {name: torch.randn(value.shape, generator=draw).to(value) for name, value in leaves.items()}
    for _ in range(POWER_STEPS):
        length = _norm(direction) or 1.0
        aimed = [part / length for part in direction.values()]
        curved = torch.autograd.grad(slopes, list(leaves.values()), grad_outputs=aimed, retain_graph=True)
        direction = dict(zip(leaves, curved, strict=True))
    return _norm(direction)


def _minus(one: Weights, other: Weights) -> dict[str, Tensor]:
    return {name: value - other[name] for name, value in one.items()}


def _norm(values: Weights) -> float:
    return math.sqrt(sum(float(value.double().square().sum()) for value in values.values()))
