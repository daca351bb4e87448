"""What the last layer of an update tells about labels, whichever way they are counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from leakscope.errors import refusal
from leakscope.labels.restore import restored
from leakscope.types import LocalTraining, Weights
from leakscope.victims import Victim
from leakscope.victims.head import Head, embeddings, find_head, logits_of


@dataclass(frozen=True)
class Evidence:
    """An update as seen from the last linear layer: logits = W h + b, K classes, features h (d,)."""

    victim: Victim
    w0: Weights
    delta: Weights
    training: LocalTraining
    n: int

    def __post_init__(self) -> None:
        if self.training.optimizer != "sgd":
            raise refusal(
                f"labels cannot be counted from the update of a client that trains with {self.training.optimizer}",
                why="its steps do not carry the size of the gradient, and the counts are read from that size",
                fix="--labels known, counts or none",
            )

    @cached_property
    def head(self) -> Head:
        """The victim's last linear layer."""
        return find_head(self.victim)

    @property
    def steps(self) -> int:
        """T."""
        return self.training.steps(self.n)

    @property
    def weight(self) -> Tensor:
        """G_W (K, d): the sum over T steps of the gradient of W."""
        return self._last_layer[0]

    @property
    def bias(self) -> Tensor | None:
        """G_b (K,), or None where the layer has no bias."""
        return self._last_layer[1]

    @cached_property
    def _last_layer(self) -> tuple[Tensor, Tensor | None]:
        weight = self._gradient(self.head.weight)
        return (weight, None) if self.head.bias is None else restored(weight, self._gradient(self.head.bias))

    @property
    def signal(self) -> Tensor:
        """What falls with a class's count (K,): G_b, or the row sums of G_W where there is no bias."""
        return self.weight.sum(dim=1) if self.bias is None else self.bias

    @cached_property
    def direct(self) -> bool:
        """Whether the last layer's output is the logits; a ReLU after it hides part of what the bias would tell."""
        feature = mixed_signs(self.weight.shape[1])
        bias = None if self.head.bias is None else self.w0[self.head.bias].cpu().double()
        plain = torch.nn.functional.linear(feature, self.w0[self.head.weight].cpu().double(), bias)
        return torch.allclose(self.softmax(0.0, feature), plain.softmax(dim=1), atol=1e-6)

    def state(self, t: float) -> dict[str, Tensor]:
        """w0 - t * delta: t = 0 is w0, t = 1 is wT."""
        return {name: value - t * self.delta[name].to(value) for name, value in self.w0.items()}

    def softmax(self, t: float, h: Tensor) -> Tensor:
        """(M, d) features -> (M, K) probabilities at the state t."""
        state = self.state(t)
        like = state[self.head.weight]
        with torch.no_grad():
            logits = logits_of(self.victim, self.head, state, self._buffers(like), h.to(like))
        return logits.cpu().double().softmax(dim=1)

    def features(self, t: float, x: Tensor) -> Tensor:
        """(M, C, H, W) normalised images -> (M, d) features at the state t."""
        state = self.state(t)
        like = state[self.head.weight]
        with torch.no_grad():
            h = embeddings(self.victim, self.head, state, self._buffers(like), x.to(like))
        return h.cpu().double()

    def _buffers(self, like: Tensor) -> dict[str, Tensor]:
        return {name: value.to(like.device) for name, value in self.victim.buffers().items()}

    def _gradient(self, name: str) -> Tensor:
        """Sum of T gradients; momentum and weight decay, which are known, are taken out. Exact zeros were pruned."""
        moved, start = self.delta[name].cpu().double(), self.w0[name].cpu().double()
        total = moved / self.training.lr / repetitions(self.training.momentum, self.steps)
        decay = self.training.weight_decay * self.steps * (start - moved / 2)
        return torch.where(moved == 0, 0.0, total - decay)


def repetitions(momentum: float, steps: int) -> float:
    """How often a gradient enters the update on average: mean over s of sum_{k < s} momentum^k; 1 without momentum."""
    return sum((1 - momentum**left) / (1 - momentum) for left in range(1, steps + 1)) / steps


def mixed_signs(width: int) -> Tensor:
    """Two opposite probes (2, width): whatever bends one half-line shows on one of them."""
    probe = torch.linspace(-1, 1, width, dtype=torch.float64)
    return torch.stack([probe, -probe])
