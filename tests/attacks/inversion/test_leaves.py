"""Synthetic images."""

import pytest
import torch

from leakscope.attacks.inversion.leaves import dead_leaves
from leakscope.types import stream


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 16, 24)])
def test_images_of_any_shape_in_the_box(shape):
    images = dead_leaves(5, shape, stream(0, "leaves"))
    assert images.shape == (5, *shape)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    assert torch.equal(images, dead_leaves(5, shape, stream(0, "leaves")))


def test_neighbours_are_alike_and_far_pixels_are_not():
    images = dead_leaves(50, (1, 32, 32), stream(0, "leaves"))
    centred = images - images.mean()
    spread = centred.square().mean()

    def correlation(distance: int) -> float:
        return float((centred[..., distance:] * centred[..., :-distance]).mean() / spread)

    assert correlation(1) > 0.8
    assert correlation(16) < 0.5 * correlation(1)
