"""A first picture from a feature vector: ridge regression from 3x3 cells of the feature map to a patch of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

RIDGE = 3e-3
"""As a part of the mean energy of an input."""


@dataclass(frozen=True)
class Decoder:
    """pixels of a patch = W (3x3 cells around its own), the same W (9 c + 1, C p q) everywhere."""

    weight: Tensor
    cells: tuple[int, int, int]
    """(c, h, w) of the feature map; (F, 1, 1) where features are no map."""
    shape: tuple[int, int, int]
    """(C, H, W) of an image."""

    @classmethod
    def fit(cls, features: Tensor, images: Tensor, cells: tuple[int, int, int]) -> Decoder:
        """From the features (M, F) of images (M, C, H, W)."""
        shape = (images.shape[1], images.shape[2], images.shape[3])
        inputs, outputs = _around(features, cells), _patches(images.to(features), cells)
        gram = inputs.T @ inputs
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        return cls(torch.linalg.solve(gram + ridge, inputs.T @ outputs), cells, shape)

    def __call__(self, features: Tensor) -> Tensor:
        """(k, F) -> (k, C, H, W) in [0, 1]."""
        rows = _around(features, self.cells) @ self.weight
        _, h, w = self.cells
        channels, height, width = self.shape
        p, q = -(-height // h), -(-width // w)
        patches = rows.view(len(features), h * w, channels * p * q).transpose(1, 2)
        whole = functional.fold(patches, (h * p, w * q), (p, q), stride=(p, q))
        return _resized(whole, height, width).clamp(0, 1)


def _around(features: Tensor, cells: tuple[int, int, int]) -> Tensor:
    """(k, F) -> (k h w, 9 c + 1): each cell with its neighbours, and a one."""
    size = 1 if cells[1:] == (1, 1) else 3
    seen = functional.unfold(features.view(-1, *cells), size, padding=size // 2)
    seen = seen.transpose(1, 2).flatten(0, 1)
    return torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)


def _patches(images: Tensor, cells: tuple[int, int, int]) -> Tensor:
    """(M, C, H, W) -> (M h w, C p q): the pixels under each cell, of images enlarged to whole patches."""
    _, h, w = cells
    p, q = -(-images.shape[2] // h), -(-images.shape[3] // w)
    whole = _resized(images, h * p, w * q)
    return functional.unfold(whole, (p, q), stride=(p, q)).transpose(1, 2).flatten(0, 1)


def _resized(images: Tensor, height: int, width: int) -> Tensor:
    if images.shape[2:] == (height, width):
        return images
    return functional.interpolate(images, (height, width), mode="bilinear", align_corners=False)
