from __future__ import annotations

import pytest
import torch
from skimage.metrics import structural_similarity

from leakscope.metrics.pairs import UnavailableError
from leakscope.metrics.ssim import ssim
from reference_images import crops, frozen_pairs

# piq 0.8.0 and scikit-image 0.26 (gaussian_weights=True, sigma=1.5, use_sample_covariance=False) agree on these.
FROZEN = {"256 noise": 0.4257, "256 blur": 0.7450, "32 noise": 0.8222, "32 blur": 0.4398, "32 unrelated": 0.0233}


@pytest.mark.parametrize(("pair", "value"), FROZEN.items())
def test_frozen_values(pair: str, value: float) -> None:
    assert ssim(*frozen_pairs()[pair]).item() == pytest.approx(value, abs=6e-5)


@pytest.mark.parametrize("shape", [(28, 28), (32, 32), (64, 48), (11, 11)])
@pytest.mark.parametrize("channels", [1, 3])
def test_agrees_with_scikit_image(channels: int, shape: tuple[int, int]) -> None:
    draws = torch.Generator().manual_seed(shape[0] * channels)
    x = torch.rand(2, channels, *shape, generator=draws, dtype=torch.float64)
    y = (0.7 * x + 0.3 * torch.rand(x.shape, generator=draws, dtype=torch.float64)).roll(1, dims=3)
    theirs = [
        structural_similarity(
            a.numpy(),
            b.numpy(),
            channel_axis=0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=1,
        )
        for a, b in zip(x, y, strict=True)
    ]
    assert ssim(x, y).tolist() == pytest.approx(theirs, abs=1e-12)


def test_identity_symmetry_and_single_precision() -> None:
    x, y = crops(4), crops(4, seed=1)
    assert ssim(x, x).tolist() == pytest.approx([1] * 4, abs=1e-6)
    assert torch.allclose(ssim(x, y), ssim(y, x), atol=1e-6)
    assert torch.allclose(ssim(x, y).double(), ssim(x.double(), y.double()), atol=1e-5)


def test_slices_change_nothing() -> None:
    x, y = torch.rand(2, 1100, 1, 32, 32, generator=torch.Generator().manual_seed(0)).unbind()
    together = ssim(x, y)
    assert torch.allclose(together[-3:], ssim(x[-3:], y[-3:]), atol=1e-6)
    assert together.shape == (1100,)


def test_images_smaller_than_the_window_have_no_value() -> None:
    with pytest.raises(UnavailableError, match="11x11 does not fit into images of 8x32"):
        ssim(torch.zeros(1, 1, 8, 32), torch.zeros(1, 1, 8, 32))
