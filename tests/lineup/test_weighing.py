"""The scores against the formula in full, with the gradients themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from leakscope.lineup.gram import Products
from leakscope.lineup.weighing import Weighing, weigh
from leakscope.types import stream

P = 400


def made(noise: float) -> tuple[Tensor, Tensor]:
    """20 suspects at 2 states and 10 references (50, P); an update of the first 8 suspects, and noise."""
    generator = stream(3, "weighing")
    first, references = (torch.randn(k, P, generator=generator, dtype=torch.float64) for k in (20, 10))
    second = first + 0.5 * torch.randn(20, P, generator=generator, dtype=torch.float64)
    delta = (0.7 * first[:8] + 0.3 * second[:8]).sum(0)
    delta = delta + noise * torch.randn(P, generator=generator, dtype=torch.float64)
    return torch.cat([first, second, references]), delta


def weighed(rows: Tensor, delta: Tensor, *, suspects: int = 20) -> Weighing:
    products = Products(rows @ rows.T, rows @ delta)
    return weigh(products, suspects=suspects, states=2, energy=float(delta.square().sum()), coordinates=P)


def test_score_is_the_matched_filter_against_everything_else() -> None:
    rows, delta = made(2.0)
    found = weighed(rows, delta)
    unit = rows / rows.norm(dim=1, keepdim=True)
    variance, tau2 = found.noise**2, found.noise**2 / found.ratio
    prior = torch.cat([torch.full((40,), tau2), torch.full((10,), tau2 * found.share)]).double()
    for i in (0, 7, 8, 19):
        rest = [k for k in range(50) if k not in (i, 20 + i)]
        covariance = (unit[rest].T * prior[rest]) @ unit[rest] + variance * torch.eye(P, dtype=torch.float64)
        own = unit[i] + unit[20 + i]
        filtered = torch.linalg.solve(covariance, own)
        torch.testing.assert_close(found.scores[i], filtered @ delta / (filtered @ own).sqrt(), rtol=1e-5, atol=1e-6)


def test_members_stand_out_and_noise_is_found() -> None:
    rows, delta = made(2.0)
    found = weighed(rows, delta)
    assert found.scores[:8].min() > found.scores[8:].max()
    assert 1.5 < found.noise < 2.5


def test_no_score_depends_on_the_size_of_the_update_or_of_a_gradient() -> None:
    rows, delta = made(2.0)
    sizes = torch.linspace(0.1, 10, 20, dtype=torch.float64).repeat(2)
    again = weighed(rows * torch.cat([sizes, torch.ones(10, dtype=torch.float64)])[:, None], 7.5 * delta)
    torch.testing.assert_close(again.scores, weighed(rows, delta).scores)


def test_works_without_references() -> None:
    rows, delta = made(2.0)
    found = weighed(rows[:40], delta)
    assert found.scores[:8].min() > found.scores[8:].max()
    assert found.share == 1.0
