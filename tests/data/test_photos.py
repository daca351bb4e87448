"""The embedded photographs: enough of them, varied, and always the same."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.data import Dataset, load
from leakscope.data import photos as module
from leakscope.data.photos import PER_PHOTO, PHOTOS
from leakscope.errors import InputError


@pytest.fixture(scope="module")
def photos() -> Dataset:
    return load("photos")


def test_many_views_of_each_photograph(photos: Dataset) -> None:
    assert photos.shape == (3, 32, 32)
    assert photos.label_names == tuple(PHOTOS)
    assert np.bincount(photos.labels).tolist() == [PER_PHOTO] * len(PHOTOS)
    assert len(photos) == 540


def test_no_view_is_repeated_or_flat(photos: Dataset) -> None:
    assert len({image.tobytes() for image in photos.images}) == len(photos)
    contrast = photos.images.astype(float).std(axis=(1, 2)).mean(axis=1) / 255
    assert contrast.min() > 0.04


def test_they_are_in_colour(photos: Dataset) -> None:
    spread = photos.images.astype(float).mean(axis=(1, 2)).std(axis=1)
    for label, name in enumerate(PHOTOS):
        if name != "galaxies":  # black between the galaxies
            assert spread[photos.labels == label].mean() > 5


def test_the_normalisation_is_theirs(photos: Dataset) -> None:
    pixels = photos.images.reshape(-1, 3) / 255
    np.testing.assert_allclose(photos.normalisation.mean, pixels.mean(axis=0), atol=0.002)
    np.testing.assert_allclose(photos.normalisation.std, pixels.std(axis=0), atol=0.002)


def test_always_the_same(photos: Dataset) -> None:
    module.read_photos.cache_clear()
    assert load("photos").fingerprint == photos.fingerprint


def test_a_stripped_installation_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    module.read_photos.cache_clear()
    monkeypatch.setitem(PHOTOS, "cat", ("skimage", "data/no_such_picture.png", module.ZOOMS))
    with pytest.raises(InputError, match="force-reinstall scikit-image"):
        load("photos")
    monkeypatch.setitem(PHOTOS, "cat", ("no_such_package", "cat.png", module.ZOOMS))
    with pytest.raises(InputError, match="no_such_package is not installed"):
        load("photos")
