"""Convolutional victims: the nets of Dimitrov et al. (2022) that the paper attacks, and a small residual one."""

from __future__ import annotations

import math

from torch import Tensor, nn


def _two_block_cnn(shape: tuple[int, int, int], classes: int, *, widths: tuple[int, int], hidden: int) -> nn.Module:
    first, second = widths
    return nn.Sequential(
        nn.Conv2d(shape[0], first, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (shape[1] // 4) * (shape[2] // 4), hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def cnn_mnist(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """CNNmnist: conv 32, conv 64, FC 100. 338,778 weights on FEMNIST (1x28x28, 62 classes)."""
    return _two_block_cnn(shape, classes, widths=(32, 64), hidden=100)


def cnn_cifar(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """CNNcifar: conv 64, conv 128, FC 200. 1,734,348 weights on CIFAR-100 (3x32x32, 100 classes)."""
    return _two_block_cnn(shape, classes, widths=(64, 128), hidden=200)


def cnn_organ(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """CNNmnist for OrganAMNIST at 64x64; the paper does not name its model there."""
    return cnn_mnist(shape, classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H/stride, W/stride)."""
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        result: Tensor = self.relu(out + self.shortcut(x))
        return result


def resnet8(shape: tuple[int, int, int], classes: int, *, hidden: int = 1000) -> nn.Module:
    """Three basic blocks of 32, 64 and 128 channels with batch norm, then two linear layers."""
    side = [math.ceil(math.ceil(size / 2) / 2) // 2 + 1 for size in shape[1:]]
    return nn.Sequential(
        nn.Conv2d(shape[0], 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        BasicBlock(32, 32, 1),
        BasicBlock(32, 64, 2),
        BasicBlock(64, 128, 2),
        nn.AvgPool2d(2, 2, padding=1),
        nn.Flatten(),
        nn.Linear(128 * side[0] * side[1], hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )
