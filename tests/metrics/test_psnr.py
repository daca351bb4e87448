from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio

from leakscope.errors import InputError
from leakscope.metrics.psnr import CAP, mse, psnr
from reference_images import frozen_pairs


@settings(deadline=None)
@given(gap=st.floats(1e-4, 1.0))
def test_a_constant_gap_gives_its_own_decibels(gap: float) -> None:
    x = torch.zeros(1, 3, 4, 4, dtype=torch.float64)
    assert psnr(x, x + gap).item() == pytest.approx(-20 * math.log10(gap), abs=1e-9)


@pytest.mark.parametrize("pair", frozen_pairs())
def test_agrees_with_scikit_image(pair: str) -> None:
    x, y = frozen_pairs()[pair]
    assert psnr(x, y).item() == pytest.approx(peak_signal_noise_ratio(x.numpy(), y.numpy(), data_range=1), abs=1e-3)


def test_identical_images_get_the_cap_and_nothing_gets_more() -> None:
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert psnr(x, x).tolist() == pytest.approx([CAP] * 3)
    assert (psnr(x, x + 1e-7) <= CAP + 1e-4).all()


def test_is_a_value_per_image_and_not_of_the_mean_error() -> None:
    x = torch.zeros(2, 1, 4, 4)
    y = torch.stack([torch.full((1, 4, 4), 0.1), torch.full((1, 4, 4), 0.01)])
    assert psnr(x, y).tolist() == pytest.approx([20, 40], abs=1e-4)
    assert psnr(x, y).mean() != pytest.approx(float(10 * torch.log10(1 / mse(x, y).mean())), abs=1)


def test_is_symmetric() -> None:
    x, y = torch.rand(2, 3, 3, 8, 8, generator=torch.Generator().manual_seed(1)).unbind()
    assert torch.equal(psnr(x, y), psnr(y, x))


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(3, 1, 4, 4), "cannot be compared"),
        (torch.zeros(2, 4, 4), torch.zeros(2, 4, 4), "(N, C, H, W)"),
        (torch.zeros(1, 1, 4, 4, dtype=torch.uint8), torch.zeros(1, 1, 4, 4), "torch.uint8"),
    ],
)
def test_what_cannot_be_compared_is_refused(x: torch.Tensor, y: torch.Tensor, said: str) -> None:
    with pytest.raises(InputError) as error:
        psnr(x, y)
    assert said in str(error.value)
