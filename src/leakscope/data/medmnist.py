"""OrganAMNIST in MedMNIST's own npz form, and its 28x28 edition upsampled to 64x64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from leakscope.data.dataset import Samples
from leakscope.data.npz import read_arrays

ORGANS = (
    *("bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right"),
    *("liver", "lung-left", "lung-right", "pancreas", "spleen"),
)


def read_medmnist(paths: Sequence[Path]) -> Samples:
    """`train_images`, `train_labels` and their `test_` twins; MedMNIST's validation part is left aside."""
    names = ("train_images", "train_labels", "test_images", "test_labels")
    found = read_arrays(paths[0], needed=names)
    return Samples(
        np.concatenate([found["train_images"], found["test_images"]]),
        np.concatenate([found["train_labels"], found["test_labels"]]),
        splits=np.repeat([0, 1], [len(found["train_labels"]), len(found["test_labels"])]),
        label_names=ORGANS,
    )


def upsampled(read: Callable[[Sequence[Path]], Samples], side: int) -> Callable[[Sequence[Path]], Samples]:
    """A reader whose grey images are enlarged to side x side, bilinearly: no detail is added."""

    def read_and_enlarge(paths: Sequence[Path]) -> Samples:
        samples = read(paths)
        if samples.images.dtype != np.uint8 or samples.images.ndim != 3:
            return samples  # the checks that every data set passes through will say what is wrong
        large = [
            np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR))
            for image in samples.images
        ]
        return replace(samples, images=np.stack(large) if large else samples.images)

    return read_and_enlarge
