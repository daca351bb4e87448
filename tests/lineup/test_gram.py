"""Inner products by layers, by activations and along the update are those of the explicit gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from leakscope.lineup.gram import BUDGET, products, taped_layers
from leakscope.lineup.state import State, View
from leakscope.types import Weights


class Odd(nn.Module):
    """A convolution in groups, one that is used twice, a parameter of its own, and activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.twice = nn.Conv2d(4, 4, 1)
        self.circular = nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")
        self.norm = nn.GroupNorm(2, 4)
        self.shift = nn.Parameter(torch.randn(4, 1, 1))
        self.tokens = nn.Linear(9, 12)
        self.head = nn.Linear(48, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.first(x), inplace=True)
        h = functional.relu(self.norm(self.grouped(h)), inplace=True) + self.shift
        h = torch.tanh(self.circular(self.twice(torch.tanh(self.twice(h)))))
        logits: Tensor = self.head(self.tokens(h.flatten(2)).flatten(1))
        return logits


class Wide(nn.Module):
    """A convolution with more weights than numbers on its tape, and few places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, stride=3)
        self.wide = nn.Conv2d(16, 32, 2)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(functional.relu(self.wide(functional.relu(self.conv(x)))).flatten(1))
        return logits


def views_of(module: nn.Module, *, soft: bool = False) -> tuple[list[View], Weights]:
    torch.manual_seed(0)
    module = module.eval()
    weights = {name: value.detach() for name, value in module.named_parameters()}
    delta = {name: 0.1 * torch.randn_like(value) for name, value in weights.items()}
    labels = torch.tensor([0, 1, 2, 1, 0])
    y = functional.one_hot(labels, 3).float() * 0.8 + 0.2 / 3 if soft else labels
    views = []
    for s, count in ((0.0, 5), (0.5, 3)):
        state = State(module.requires_grad_(False), {n: w - s * delta[n] for n, w in weights.items()}, {})
        views.append(View(state, torch.randn(count, 1, 6, 6), y[:count]))
    return views, delta


def explicit(views: list[View]) -> Tensor:
    """(rows, p): every gradient in full."""
    rows = []
    for view in views:
        for x, y in zip(view.x, view.y, strict=True):
            leaves = [value.detach().requires_grad_() for value in view.state.weights.values()]
            loss = view.state.losses(dict(zip(view.state.weights, leaves, strict=True)), x[None], y[None]).sum()
            rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves)]))
    return torch.stack(rows).double()


@pytest.mark.parametrize("budget", [BUDGET, 200])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("net", [Odd, Wide])
def test_products_are_those_of_the_gradients(net: type[nn.Module], soft: bool, budget: int) -> None:
    torch.manual_seed(1)
    views, delta = views_of(net(), soft=soft)
    rows, along = explicit(views), torch.cat([value.flatten() for value in delta.values()]).double()
    found = products(views, delta, budget=budget)
    torch.testing.assert_close(found.gram, rows @ rows.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.slopes, rows @ along, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("budget", [BUDGET, 200])
@pytest.mark.parametrize("net", [Odd, Wide])
def test_products_over_some_coordinates(net: type[nn.Module], budget: int) -> None:
    torch.manual_seed(1)
    views, delta = views_of(net())
    masks = {name: torch.rand_like(value) < 0.3 for name, value in delta.items()}
    masks.pop("head.weight")
    rows, along = explicit(views), torch.cat([value.flatten() for value in delta.values()]).double()
    count = torch.cat([masks.get(name, torch.ones_like(value)).flatten() for name, value in delta.items()]).double()
    found = products(views, delta, masks=masks, budget=budget)
    torch.testing.assert_close(found.gram, rows * count @ rows.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.slopes, rows * count @ along, rtol=1e-4, atol=1e-5)


def test_layers_that_the_tape_explains() -> None:
    views, _ = views_of(Odd())
    assert [layer.weight for layer in taped_layers(views[0])] == [
        "first.weight",
        "grouped.weight",
        "tokens.weight",
        "head.weight",
    ]


def test_slopes_for_every_label_are_the_inner_products() -> None:
    views, delta = views_of(Odd())
    view = views[0]
    found = products([view], delta).slopes
    each = view.state.label_slopes(delta, view.x)
    torch.testing.assert_close(each.gather(1, view.y[:, None])[:, 0].double(), found, rtol=1e-4, atol=1e-6)


def test_an_operation_that_cannot_be_batched_goes_image_by_image() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(36))
            self.head = nn.Linear(36, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = x.flatten(1) * self.scale
            if float(h.detach().sum()) > 1e9:
                h = -h
            logits: Tensor = self.head(h)
            return logits

    views, delta = views_of(Branching())
    rows = explicit(views)
    torch.testing.assert_close(products(views, delta).gram, rows @ rows.T, rtol=1e-4, atol=1e-5)
