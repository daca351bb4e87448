from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakscope.metrics.baseline import blind_guesses, relative
from leakscope.metrics.psnr import mse
from reference_images import crops


def test_the_guesses_are_mean_colour_median_colour_and_mean_image() -> None:
    images = crops(9)
    mean, median, picture = blind_guesses(images)
    assert torch.allclose(mean[:, 5, 7], images.mean((0, 2, 3)))
    assert (mean == mean[:, :1, :1]).all()
    assert torch.allclose(median[:, 0, 0], images.transpose(0, 1).flatten(1).median(1).values)
    assert torch.allclose(picture, images.mean(0))


def test_handwriting_is_guessed_as_a_white_page() -> None:
    pages = torch.ones(5, 1, 28, 28)
    pages[:, :, 10:14, 4:20] = 0
    assert (blind_guesses(pages)[1] == 1).all()


def test_no_constant_has_a_lower_squared_error_than_the_mean_colour() -> None:
    images = crops(9)
    constant = blind_guesses(images)[:1]
    error = mse(images, constant.expand_as(images)).mean()
    for shift in (-0.02, 0.02):
        assert mse(images, (constant + shift).expand_as(images)).mean() > error


@settings(deadline=None)
@given(similarity=st.floats(-1, 1), base=st.floats(-1, 0.99))
def test_relative_is_0_at_the_guess_1_at_a_copy_and_grows(similarity: float, base: float) -> None:
    value = torch.tensor([similarity, base, 1.0], dtype=torch.float64)
    guess = torch.full((3,), base, dtype=torch.float64)
    found = relative(value, guess).tolist()
    assert found[1:] == pytest.approx([0, 1], abs=1e-9)
    assert -1 <= found[0] <= 1
    assert found[0] * (similarity - base) >= 0


def test_an_image_that_the_guess_already_shows_leaks_nothing() -> None:
    assert relative(torch.tensor([1.0, 0.5]), torch.tensor([1.0, 1.0])).tolist() == [0, -1]
