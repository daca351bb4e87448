"""The model, the data and the training loop: plain PyTorch."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
PER_CLIENT = 8


class Net(nn.Module):
    """Two convolutions and two linear layers for 32x32 colour images of nine classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64 * 8 * 8, 100), nn.ReLU(), nn.Linear(100, 9))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def load_images(path: str, partition: int) -> tuple[Tensor, Tensor]:
    """The private images of one client, (N, 3, 32, 32) in [0, 1], and their labels."""
    with np.load(path) as file:
        images = torch.from_numpy(file["images"]).permute(0, 3, 1, 2).float() / 255
        labels = torch.from_numpy(file["labels"])
    own = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).split(PER_CLIENT)[partition]
    return images[own], labels[own]


def load_data(path: str, partition: int, batch_size: int) -> DataLoader:
    images, labels = load_images(path, partition)
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    return DataLoader(TensorDataset((images - mean) / std, labels), batch_size=batch_size, shuffle=True)


def train(model: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    total = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(loader))


def test(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    with torch.no_grad():
        hits = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return hits / len(loader.dataset)
