"""Local FedAvg training: what a client does between receiving w0 and sending wT (paper, eq. 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from leakscope.errors import refusal
from leakscope.types import ClientBatch, LocalTraining, Update, Weights, stream
from leakscope.victims import Victim

Gradients = Callable[[Victim, Weights, Weights, Tensor, Tensor], dict[str, Tensor]]
"""(victim, weights, buffers, x, y) -> gradient per tensor: where DP-SGD steps in."""


@dataclass(frozen=True)
class Client:
    """The private side: the images, the model they train, and how."""

    victim: Victim
    batch: ClientBatch
    training: LocalTraining
    seed: int = 0

    def __post_init__(self) -> None:
        if self.training.batch_size > (n := len(self.batch)):
            found = f"batch size {self.training.batch_size} is larger than the client's {n} images"
            raise refusal(found, fix=f"--batch-size {n} or less")


def train(
    client: Client,
    w0: Weights,
    *,
    gradients: Gradients | None = None,
    order: Iterable[Tensor] | None = None,
    record: bool = False,
) -> Update:
    """E epochs of mini-batch SGD from w0 on the client's images, reshuffled every epoch.

    T = E * ceil(N / B) steps; `order` gives other batches than the shuffled ones, `record` keeps the true
    trajectory w_0 .. w_T.
    """
    gradients = gradients or batch_gradient
    settings, batch = client.training, client.batch
    x, y = batch.normalisation.apply(batch.images), batch.labels
    device = x.device
    w = {name: value.detach().to(device, copy=True) for name, value in w0.items()}
    buffers = {name: value.to(device) for name, value in client.victim.buffers().items()}
    start = {name: value.clone() for name, value in buffers.items()}
    step = _sgd(settings) if settings.optimizer == "sgd" else _adam(settings)
    client.victim.module.train(settings.mode == "train")
    states = [dict(w)] if record else []
    try:
        with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
            torch.manual_seed(client.seed)
            for chosen in order or batches(len(batch), settings, seed=client.seed):
                w = step(w, gradients(client.victim, w, buffers, x[chosen], y[chosen]))
                if record:
                    states.append(dict(w))
    finally:
        client.victim.module.eval()
    delta = {name: w0[name].detach().to(device) - value for name, value in w.items()}
    return Update(
        w0={name: value.detach().clone() for name, value in w0.items()},
        delta=delta,
        training=settings,
        n=len(batch),
        buffers=start,
        trajectory=tuple(states),
        buffers_after=buffers,
    )


def batches(n: int, settings: LocalTraining, *, seed: int) -> Iterator[Tensor]:
    """Index tensors of the T mini-batches, a new order every epoch."""
    order = stream(seed, "batch order")
    for _ in range(settings.epochs):
        yield from torch.split(torch.randperm(n, generator=order), settings.batch_size)


def batch_gradient(victim: Victim, weights: Weights, buffers: Weights, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Gradient of the mean cross-entropy over one mini-batch; zero for a tensor that the forward pass leaves out."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    loss = functional.cross_entropy(victim.call(leaves, buffers, x), y)
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


Step = Callable[[dict[str, Tensor], dict[str, Tensor]], dict[str, Tensor]]


def _sgd(settings: LocalTraining) -> Step:
    velocity: dict[str, Tensor] = {}

    def step(w: dict[str, Tensor], gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        new = {}
        for name, value in w.items():
            direction = gradient[name] + settings.weight_decay * value if settings.weight_decay else gradient[name]
            if settings.momentum:
                direction = velocity[name] = settings.momentum * velocity.get(name, 0) + direction
            new[name] = value - settings.lr * direction
        return new

    return step


def _adam(settings: LocalTraining) -> Step:
    leaves: dict[str, Tensor] = {}
    made: list[torch.optim.Adam] = []

    def step(w: dict[str, Tensor], gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        if not made:
            leaves.update({name: value.clone() for name, value in w.items()})
            made.append(torch.optim.Adam(leaves.values(), lr=settings.lr, weight_decay=settings.weight_decay))
        for name, leaf in leaves.items():
            leaf.grad = gradient[name]
        made[0].step()
        return {name: leaf.detach().clone() for name, leaf in leaves.items()}

    return step
