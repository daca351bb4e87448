"""Where the dummy update is computed: the identity laws of eqs. 3, 6 and 7."""

import pytest
import torch

from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Calibrated
from leakscope.attacks.objective import Objective
from leakscope.attacks.priors import ClassLoss, TotalVariation
from leakscope.attacks.surrogate import Bezier, Linear
from scenes import tiny_observation


@pytest.fixture
def known() -> Known:
    return Known.of(tiny_observation(), torch.device("cpu"), torch.float64)


@pytest.mark.parametrize("t", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_bezier_at_the_midpoint_is_the_straight_line_bit_for_bit(known, t):
    v = {"t": torch.tensor(t, dtype=torch.float64), "p1": torch.zeros_like(known.w0)}
    assert torch.equal(Bezier().state(v, known), Linear().state(v, known))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_the_offset_form_is_equation_6(known, t):
    mid = (known.w0 + known.wT) / 2
    p1 = mid + torch.randn_like(mid)
    v = {"t": torch.tensor(t, dtype=torch.float64), "p1": p1 - mid}
    expected = (1 - t) ** 2 * known.w0 + 2 * t * (1 - t) * p1 + t**2 * known.wT
    torch.testing.assert_close(Bezier().state(v, known), expected, atol=1e-12, rtol=0)
    assert Bezier(lambda_p=0.5).variables(known)["p1"].ridge == 0.5


@pytest.mark.parametrize("surrogate", [Linear(), Bezier()])
def test_the_endpoints_are_the_two_models(known, surrogate):
    p1 = torch.randn_like(known.w0)
    for t, end in ((0.0, known.w0), (1.0, known.wT)):
        state = surrogate.state({"t": torch.tensor(t, dtype=torch.float64), "p1": p1}, known)
        torch.testing.assert_close(state, end, atol=1e-14, rtol=0)


def test_gradients_of_every_variable_agree_with_finite_differences(known):
    objective = Objective(
        known,
        Pixels(),
        Bezier(),
        Calibrated(),
        (TotalVariation(), ClassLoss(weight=0.1)),
        {"p1": 0.1, "d": 0.1},
    )
    generator = torch.Generator().manual_seed(0)

    def noise(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)

    v = {
        "x": noise(torch.empty(known.n, *known.shape)),
        "t": torch.tensor(0.4, dtype=torch.float64),
        "p1": 1e-2 * noise(known.w0),
        "d": 0.1 * noise(known.w0),
    }
    progress = torch.tensor(0.5, dtype=torch.float64)
    gradients, _, _ = objective.evaluate(v, progress)
    for name, value in v.items():
        direction = noise(value)
        step = 1e-6
        ends = [objective.evaluate({**v, name: value + sign * step * direction}, progress)[1] for sign in (1, -1)]
        expected = float(ends[0] - ends[1]) / (2 * step)
        found = float((gradients[name] * direction).sum())
        assert found == pytest.approx(expected, rel=1e-5), name
