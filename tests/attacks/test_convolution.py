"""The second derivative of a convolution."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from leakscope.attacks.convolution import Convolution, FewChannels, Geometry, geometry_of, speed_up_convolutions

INNERMOST = partial(FewChannels, innermost=True)
CASES = [
    {"kind": FewChannels, "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1},
    {
        "kind": partial(FewChannels, innermost=True),
        "stride": (1, 1),
        "padding": (0, 2),
        "dilation": (2, 1),
        "groups": 1,
    },
    {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 2), "padding": (1, 1), "dilation": (2, 1), "groups": 2},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_all_second_derivatives_are_those_of_torch(case, bias):
    case = dict(case)
    geometry = case.pop("kind", Geometry)(**case)
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    x, w, b = draw(3, 4, 7, 6), draw(6, 4 // case["groups"], 3, 2), draw(6) if bias else None
    inputs = [value for value in (x, w, b) if value is not None]
    found = []
    for way in (lambda: functional.conv2d(x, w, b, **case), lambda: Convolution.apply(x, w, b, geometry)):
        y = way().tanh()
        first = torch.autograd.grad(y.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(value.pow(3).sum() for value in first), inputs)
        found.append((y, *first, *second))
    for theirs, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kind", [Geometry, FewChannels])
def test_each_first_derivative_alone_can_be_differentiated(which, kind):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 3, 5, 5), (4, 3, 3, 3), (4,))
    x, w, b = (torch.randn(*s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes)
    found = []
    geometry = kind((1, 1), (0, 0), (1, 1), 1)
    for way in (functional.conv2d, lambda *values: Convolution.apply(*values, geometry)):
        first = torch.autograd.grad(way(x, w, b).pow(3).sum(), (x, w, b), create_graph=True)
        found.append(torch.autograd.grad(first[which].pow(2).sum(), (x, w, b)))
    for theirs, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


def test_products_of_matrices_are_for_few_channels_and_steps_of_one():
    kinds = [
        type(geometry_of(layer, innermost=True))
        for layer in (nn.Conv2d(1, 8, 3), nn.Conv2d(3, 8, 3), nn.Conv2d(1, 8, 3, 2))
    ]
    assert kinds == [FewChannels, Geometry, Geometry]


class Viewing(nn.Module):
    """Assumes that its activations lie in memory channel by channel, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.out(self.conv(x).view(len(x), -1))
        return logits


def test_channels_are_innermost_where_the_model_takes_it():
    good = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 5))
    assert speed_up_convolutions(good, (3, 8, 8))
    assert not speed_up_convolutions(Viewing(), (3, 8, 8))
    assert not speed_up_convolutions(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), (3, 8, 8))


def test_a_model_that_does_not_take_it_keeps_its_outputs():
    model, x = Viewing(), torch.rand(2, 3, 8, 8)
    before = model(x)
    speed_up_convolutions(model, (3, 8, 8))
    torch.testing.assert_close(model(x), before)
