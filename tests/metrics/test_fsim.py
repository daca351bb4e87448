from __future__ import annotations

import pytest
import torch

from leakscope.metrics.fsim import fsim
from leakscope.metrics.pairs import UnavailableError
from reference_images import crops, frozen_pairs, luminance

# FSIMc, and FSIM of the luminance, as piq 0.8.0 gives them for the same pairs.
FROZEN = {
    "256 noise": (0.7731, 0.7965),
    "256 blur": (0.8134, 0.8142),
    "32 noise": (0.8863, 0.9161),
    "32 blur": (0.6559, 0.6588),
    "32 unrelated": (0.5884, 0.6420),
}
# The same package on `waves` below: sizes that are odd, oblong, and large enough to be pooled first.
FROZEN_WAVES = {(31, 33): 0.8346, (40, 24): 0.8402, (600, 400): 0.8835}


def waves(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A colour pattern and a shifted, paler copy of it, made without random numbers."""
    rows, columns = torch.meshgrid(torch.linspace(0, 9, height), torch.linspace(0, 7, width), indexing="ij")
    x = torch.stack([(rows * columns).sin(), (rows + 2 * columns).cos(), (rows - columns).sin()])[None]
    y = torch.stack([(rows * columns + 0.4).sin(), (rows + 2 * columns).cos(), (rows - columns + 1).sin()])[None]
    return 0.5 + 0.5 * x, 0.5 + 0.3 * y


@pytest.mark.parametrize(("pair", "values"), FROZEN.items())
def test_frozen_values(pair: str, values: tuple[float, float]) -> None:
    x, y = frozen_pairs()[pair]
    found = fsim(x, y).item(), fsim(luminance(x), luminance(y)).item()
    assert found == pytest.approx(values, abs=6e-5)


@pytest.mark.parametrize(("shape", "value"), FROZEN_WAVES.items())
def test_frozen_values_of_other_sizes(shape: tuple[int, int], value: float) -> None:
    assert fsim(*waves(*shape)).item() == pytest.approx(value, abs=6e-5)


def test_identity_and_symmetry() -> None:
    x, y = crops(4), crops(4, seed=1)
    assert fsim(x, x).tolist() == pytest.approx([1] * 4, abs=1e-6)
    assert torch.allclose(fsim(x, y), fsim(y, x), atol=1e-6)


def test_grey_is_colour_without_colour() -> None:
    x, y = (images.mean(1, keepdim=True) for images in (crops(3), crops(3, seed=1)))
    assert torch.allclose(fsim(x, y), fsim(x.expand(-1, 3, -1, -1), y.expand(-1, 3, -1, -1)), atol=1e-3)


def test_flat_images_have_a_value() -> None:
    grey, lighter = torch.full((1, 3, 32, 32), 0.3), torch.full((1, 3, 32, 32), 0.5)
    assert fsim(grey, grey).item() == pytest.approx(1)
    assert 0.9 < fsim(grey, lighter).item() < 1
    assert 0 < fsim(grey, crops(1)).item() < 0.8


def test_one_image_does_not_depend_on_its_neighbours() -> None:
    x, y = torch.rand(2, 140, 1, 32, 32, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.allclose(fsim(x, y)[[0, -1]], fsim(x[[0, -1]], y[[0, -1]]), atol=1e-6)


def test_other_channel_counts_have_no_value() -> None:
    with pytest.raises(UnavailableError, match="4 channels"):
        fsim(torch.zeros(1, 4, 32, 32), torch.zeros(1, 4, 32, 32))
