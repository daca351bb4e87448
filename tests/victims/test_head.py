"""The last linear layer of every victim, and what flows through it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from leakscope.errors import InputError
from leakscope.victims import MODELS, Victim, build_victim
from leakscope.victims.head import embeddings, find_head, find_layer, logits_of


@pytest.mark.parametrize("model", MODELS)
def test_features_put_back_in_give_the_same_logits(model: str) -> None:
    victim = build_victim(model, shape=(1, 12, 12), classes=5)
    head, weights, buffers = find_head(victim), victim.weights(), victim.buffers()
    x = torch.randn(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    h = embeddings(victim, head, weights, buffers, x)
    assert weights[head.weight].shape == (5, h.shape[1])
    assert head.bias is not None
    logits = victim.call(weights, buffers, x)
    assert torch.allclose(logits_of(victim, head, weights, buffers, h), logits, atol=1e-6)
    assert not any(module._forward_pre_hooks for module in victim.module.modules())


def test_the_layer_that_runs_last_is_found_whatever_the_order_of_definition() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(7, 5, bias=False)
            self.hidden = nn.Linear(16, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.hidden(x.flatten(1)))

    victim = Victim("backwards", Backwards(), (1, 4, 4), 5)
    head = find_head(victim)
    assert (head.name, head.weight, head.bias) == ("out", "out.weight", None)
    assert find_layer(victim, "hidden").bias == "hidden.bias"


def test_a_bare_linear_model_has_a_head_too() -> None:
    class Bare(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.flatten(1))

    head = find_head(Victim("bare", Bare(16, 5), (1, 4, 4), 5))
    assert (head.weight, head.bias) == ("weight", "bias")


def test_a_model_that_ends_otherwise_is_refused() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Unflatten(1, (6, 1)), nn.Conv1d(6, 5, 1), nn.Flatten())
    with pytest.raises(InputError, match="'1' with 6 outputs"):
        find_head(Victim("late", module, (1, 4, 4), 5))
