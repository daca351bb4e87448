"""Audit a model and data of your own.

`python examples/audit_my_model.py [--quick]` or `leakscope audit examples/audit_my_model.py:client`
"""

import sys

import torch
from torch import nn

import leakscope
from leakscope import LocalClient, LocalTraining, Normalisation, data


def my_model() -> nn.Module:
    """Any classifier: images in, one logit per class out."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(2048, 64),
        nn.ReLU(),
        nn.Linear(64, 9),
    )


def my_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Load yours here: (N, C, H, W) in [0, 1] or uint8, and (N,) labels. These are the embedded photographs."""
    photos = data.load("photos")
    order = torch.randperm(len(photos), generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(photos.images).permute(0, 3, 1, 2)[order], torch.from_numpy(photos.labels)[order]


images, labels = my_images()
client = LocalClient(
    model=my_model,
    images=images[:8],
    labels=labels[:8],
    classes=9,
    training=LocalTraining(epochs=5, batch_size=4, lr=0.01, mode="train"),
    normalisation=Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    candidates=images[8:],  # what the client does not hold: would you pick the right image out of these?
)

if __name__ == "__main__":
    result = leakscope.audit(client=client, iterations=5 if "--quick" in sys.argv else None, out="runs/my-model")
    print(result.level, "-", result.verdict)
    print(result.report)
