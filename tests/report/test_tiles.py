"""Tiles: lossless where they may be seen, unrecognisable where they may not, and within the budget."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from judged import read
from leakscope.report.tiles import MOSAIC, Size, encode, mosaic, most_leaked_first, shown_per_cell, to_pixels
from sample_run import crops


def decode(tile: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(tile))))


@pytest.mark.parametrize("grey", [False, True])
def test_a_tile_is_lossless(grey: bool) -> None:
    image = crops(1, grey=grey)[0]
    shown = decode(encode(image))
    assert np.array_equal(shown, to_pixels(image)[0] if grey else to_pixels(image).transpose(1, 2, 0))


def test_two_channels_are_shown_as_their_mean() -> None:
    image = np.stack([np.zeros((4, 4)), np.ones((4, 4))]).astype(np.float32)
    assert decode(encode(image)).tolist() == [[127] * 4] * 4


@given(st.integers(4, 40), st.integers(4, 40), st.integers(0, 1000))
def test_a_mosaic_keeps_one_value_per_block(height: int, width: int, seed: int) -> None:
    image = np.random.default_rng(seed).random((3, height, width)).astype(np.float32)
    blocks = mosaic(image)
    assert blocks.shape == image.shape
    for channel in blocks:
        assert len({row.tobytes() for row in channel}) <= MOSAIC
        assert len({column.tobytes() for column in channel.T}) <= MOSAIC


def test_a_mosaic_of_an_image_smaller_than_its_blocks() -> None:
    assert mosaic(np.ones((1, 2, 3), np.float32)).tolist() == [[[255] * 3] * 2]


@pytest.mark.parametrize(("side", "factor"), [(28, 3), (32, 3), (48, 2), (64, 1), (104, 1), (224, 1)])
def test_pixels_are_enlarged_by_whole_factors(side: int, factor: int) -> None:
    assert Size(side, side).factor == factor
    assert Size(side, side).shown == (side * factor, side * factor)
    assert Size(side, side).is_large == (side == 224)


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 60)), min_size=1, max_size=40), st.integers(1, 10**6))
def test_the_budget_holds_unless_one_image_each_is_too_much(cells: list[tuple[int, int]], budget: int) -> None:
    costs, counts = zip(*cells, strict=True)
    most = shown_per_cell(costs, counts, budget=budget)
    spent = sum(cost * min(most, count) for cost, count in cells)
    assert spent <= budget or most <= 1
    assert most <= max(counts)


def test_most_leaked_first_puts_the_identified_before_the_similar() -> None:
    cell = {"per_image": {"identified": [0, 1, 1, 0], "relative_ssim": [0.9, 0.2, 0.5, None], "psnr": [1, 2, 3, 4]}}
    assert most_leaked_first(read(cell), 4) == [2, 1, 0, 3]
    assert most_leaked_first(read({"per_image": {}}), 3) == [0, 1, 2]
