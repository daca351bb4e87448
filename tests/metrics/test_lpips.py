from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from leakscope.metrics.lpips import STAGES, Backbone, lpips, lpips_of_each
from leakscope.metrics.lpips_weights import SOURCES, VARIABLE
from leakscope.metrics.pairs import UnavailableError
from reference_images import blurred, crops, photo

real_weights = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no folder with LPIPS weights")

# The lpips package 0.1.4 with the same weights, on images enlarged as the docstring says; VGG at 32 is our own value.
FROZEN: dict[tuple[Backbone, int], tuple[float, float, float]] = {
    ("vgg", 64): (0.3532, 0.2357, 0.6565),
    ("vgg", 32): (0.4030, 0.3290, 0.6333),  # enlarged to 64 first
    ("alex", 64): (0.3739, 0.3131, 0.4245),
    ("alex", 32): (0.3611, 0.2818, 0.3846),
}


@real_weights
@pytest.mark.parametrize(("backbone", "side"), FROZEN)
def test_frozen_values(backbone: Backbone, side: int) -> None:
    """The astronaut against itself blurred, against itself in grey, and against the cat."""
    x = photo("astronaut", side)
    others = [blurred(x), x.mean(1, keepdim=True).expand_as(x), photo("chelsea", side)]
    found = lpips(x.expand(3, -1, -1, -1), torch.cat(others), backbone=backbone)
    assert found.tolist() == pytest.approx(FROZEN[backbone, side], abs=2e-4)


@real_weights
@pytest.mark.parametrize("backbone", STAGES)
def test_identity_and_symmetry(backbone: Backbone) -> None:
    x, y = crops(3), crops(3, seed=1)
    assert lpips(x, x, backbone=backbone).tolist() == [0, 0, 0]
    assert torch.allclose(lpips(x, y, backbone=backbone), lpips(y, x, backbone=backbone), atol=1e-6)


@real_weights
@pytest.mark.parametrize("side", [9, 28])
@pytest.mark.parametrize("backbone", STAGES)
def test_grey_and_small_images(backbone: Backbone, side: int) -> None:
    x, y = (images.mean(1, keepdim=True) for images in (crops(2, side=side), crops(2, side=side, seed=1)))
    grey = lpips(x, y, backbone=backbone)
    assert (grey > 0).all()
    assert torch.equal(grey, lpips(x.expand(-1, 3, -1, -1), y.expand(-1, 3, -1, -1), backbone=backbone))


@real_weights
def test_alexnet_enlarges_bilinearly_to_64() -> None:
    x, y = crops(2), crops(2, seed=1)
    large = [functional.interpolate(z, size=(64, 64), mode="bilinear", align_corners=False) for z in (x, y)]
    assert torch.equal(lpips(x, y, backbone="alex"), lpips(*large, backbone="alex"))


@real_weights
def test_one_image_for_all_and_slices_change_nothing() -> None:
    x, mean = crops(70, side=64), crops(1, side=64, seed=5)
    y = x.flip(0)
    pairs, single = lpips_of_each(x, [y, mean], backbone="alex")
    assert torch.allclose(pairs[-2:], lpips(x[-2:], y[-2:], backbone="alex"), atol=1e-6)
    assert torch.allclose(single, lpips(x, mean.expand_as(x), backbone="alex"), atol=1e-6)


def test_other_channel_counts_have_no_value(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="2 channels"):
        lpips(torch.zeros(1, 2, 32, 32), torch.zeros(1, 2, 32, 32), weights=tmp_path, download=False)


def write_weights(folder: Path, *, head_key: str = "lin{}.weight") -> None:
    """Files of the right shapes with random numbers: not LPIPS, but enough to test the reading."""
    draws = torch.Generator().manual_seed(0)
    channels, kernels = [64, 192, 384, 256, 256], [11, 5, 3, 3, 3]
    trunk, before = {}, 3
    for index, width, kernel in zip((0, 3, 6, 8, 10), channels, kernels, strict=True):
        trunk[f"features.{index}.weight"] = torch.randn(width, before, kernel, kernel, generator=draws).half() / 50
        trunk[f"features.{index}.bias"] = torch.zeros(width).half()
        before = width
    heads = {head_key.format(i): torch.rand(1, width, 1, 1, generator=draws) for i, width in enumerate(channels)}
    for source, tensors in zip(SOURCES["alex"], (trunk, heads), strict=True):
        torch.save(tensors, folder / source.file)


def test_half_precision_files_and_the_authors_names_are_read(tmp_path: Path) -> None:
    folders = [tmp_path / "short", tmp_path / "long"]
    for folder, key in zip(folders, ("lin{}.weight", "lin{}.model.1.weight"), strict=True):
        folder.mkdir()
        write_weights(folder, head_key=key)
    x, y = crops(2), crops(2, seed=1)
    found = [lpips(x, y, backbone="alex", weights=folder, download=False) for folder in folders]
    assert found[0].dtype == torch.float32
    assert torch.equal(found[0], found[1])
    assert (found[0] > 0).all()


@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "other tensors", "other shapes", "not tensors"])
def test_a_damaged_file_is_a_reason_and_no_number(tmp_path: Path, damage: str) -> None:
    write_weights(tmp_path)
    file = tmp_path / SOURCES["alex"][0].file
    whole = file.read_bytes()
    spoil = {
        "truncated": lambda: file.write_bytes(whole[: len(whole) // 2]),
        "text": lambda: file.write_text("see other folder"),
        "empty": lambda: file.write_bytes(b""),
        "other shapes": lambda: torch.save({k: v[:1] for k, v in torch.load(file).items()}, file),
        "other tensors": lambda: torch.save({"weight": torch.zeros(3)}, file),
        "not tensors": lambda: torch.save([1, 2, 3], file),
    }
    spoil[damage]()
    with pytest.raises(UnavailableError, match=r"lpips_alexnet_features\.pth"):
        lpips(crops(1), crops(1), backbone="alex", weights=tmp_path, download=False)


def test_code_in_a_weights_file_is_not_run(tmp_path: Path) -> None:
    write_weights(tmp_path)
    torch.save({"features.0.weight": Trap(tmp_path / "sprung")}, tmp_path / SOURCES["alex"][0].file)
    with pytest.raises(UnavailableError):
        lpips(crops(1), crops(1), backbone="alex", weights=tmp_path, download=False)
    assert not (tmp_path / "sprung").exists()


class Trap:
    """Pickles to a call that would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)
