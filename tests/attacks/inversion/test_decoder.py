"""The first picture from a feature vector."""

import pytest
import torch
from torch.nn import functional

from leakscope.attacks.inversion.decoder import Decoder
from leakscope.types import stream


def test_patches_that_are_linear_in_their_cells_come_back():
    images = torch.rand(200, 1, 8, 12, generator=stream(0, "images"), dtype=torch.double)
    mix = torch.randn(4, 4, generator=stream(0, "mix"), dtype=torch.double)
    cells = torch.einsum("oc,nchw->nohw", mix, functional.pixel_unshuffle(images, 2))
    decode = Decoder.fit(cells[:150].flatten(1), images[:150], (4, 4, 6))
    assert float((decode(cells[150:].flatten(1)) - images[150:]).abs().max()) < 0.1


@pytest.mark.parametrize("cells", [(6, 3, 3), (54, 1, 1)])
def test_maps_that_do_not_divide_the_image_and_features_that_are_no_map(cells):
    images = torch.rand(40, 3, 10, 11, generator=stream(0, "images"))
    features = torch.rand(40, 54, generator=stream(0, "features"))
    found = Decoder.fit(features, images, cells)(features[:2])
    assert found.shape == (2, 3, 10, 11)
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
