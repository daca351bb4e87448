"""Images in the square frame of a diffusion model."""

import pytest
import torch

from leakscope.prior.frame import put_in_frame, side_for, take_from_frame


@pytest.mark.parametrize(
    ("shape", "side"),
    [((1, 28, 28), 32), ((3, 32, 32), 32), ((3, 33, 8), 64), ((1, 64, 64), 64), ((1, 5, 5), 8), ((1, 12, 12), 16)],
)
def test_the_frame_is_the_next_power_of_two(shape, side):
    assert side_for(shape) == side


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 11, 16)])
def test_what_is_put_in_comes_out_again(shape):
    images = torch.rand(3, *shape)
    framed = put_in_frame(images, 32)
    assert framed.shape == (3, shape[0], 32, 32)
    assert -1 <= float(framed.min()) < float(framed.max()) <= 1
    torch.testing.assert_close(take_from_frame(framed, shape), images)


def test_a_white_page_stays_a_white_page():
    assert bool((put_in_frame(torch.ones(1, 1, 28, 28), 32) == 1).all())
