"""How updates are compared: eqs. 9 and 10."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakscope.attacks.known import Known
from leakscope.attacks.matching import Calibrated, Cosine, cosine_distance
from scenes import tiny_observation


@pytest.fixture(scope="module")
def known() -> Known:
    return Known.of(tiny_observation(), torch.device("cpu"), torch.float64)


def test_calibration_by_one_is_the_plain_cosine_bit_for_bit(known):
    g = torch.randn_like(known.delta)
    v = {"d": torch.zeros_like(g)}
    calibrated = Calibrated()
    assert torch.equal(calibrated.distance(calibrated.calibrate(v, g), known), Cosine().distance(g, known))


def test_the_calibrated_distance_is_equation_9(known):
    g, d = torch.randn_like(known.delta), 1 + 0.3 * torch.rand_like(known.delta)
    calibrated = Calibrated(lambda_d=0.2)
    expected = 1 - torch.nn.functional.cosine_similarity(d * g, known.delta, dim=0)
    assert float(calibrated.distance(calibrated.calibrate({"d": d - 1}, g), known)) == pytest.approx(float(expected))
    assert calibrated.variables(known)["d"].ridge == 0.2


def test_d_stays_in_its_bounds(known):
    variable = Calibrated(bound=4).variables(known)["d"]
    d = torch.tensor([-2.0, -0.9, 0.0, 8.0])
    assert variable.project(d).tolist() == [-0.75, -0.75, 0.0, 3.0]


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 1000))
def test_the_cosine_ignores_length_and_sees_direction(scale, seed):
    generator = torch.Generator().manual_seed(seed)
    g, target = torch.randn(2, 50, generator=generator, dtype=torch.float64)
    assert float(cosine_distance(scale * g, target)) == pytest.approx(float(cosine_distance(g, target)), abs=1e-9)
    assert float(cosine_distance(g, g)) == pytest.approx(0, abs=1e-12)
    assert float(cosine_distance(-g, g)) == pytest.approx(2, abs=1e-12)


def test_a_dead_gradient_gives_a_number():
    assert float(cosine_distance(torch.zeros(5), torch.ones(5))) == 1
