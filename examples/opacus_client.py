"""Train a client with Opacus, record it, attack it: epsilon next to the leakage.

`python examples/opacus_client.py [--quick]`
"""

import sys
from pathlib import Path

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from leakscope import data
from leakscope.cli import app as leakscope
from leakscope.integrations.opacus import recording

QUICK = "--quick" in sys.argv
OUT = Path("runs/opacus")
photos = data.load("photos")
batch = data.draw_client(photos, n=16, seed=0)
others = data.held_out(photos, avoid=batch, count=50 if QUICK else 500, seed=0)


def my_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16 * 14 * 14, 9)
    )  # fmt: skip


def train(sigma: float, path: Path) -> None:
    """The client's own code, with one `with` around the training loop."""
    torch.manual_seed(0)
    model, engine = my_model(), PrivacyEngine()
    loader = DataLoader(TensorDataset(batch.normalisation.apply(batch.images), batch.labels), batch_size=8)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        data_loader=loader,
        noise_multiplier=sigma,
        max_grad_norm=1.0,
    )
    truth = (batch.images, batch.labels, others)
    facts = {"normalisation": batch.normalisation, "client": f"sigma {sigma:g}", "truth": truth}
    with recording(path, model, engine=engine, optimizer=optimizer, loader=loader, delta=1e-5, **facts):
        for _ in range(5):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()


if __name__ == "__main__":
    files = []
    for sigma in (0.01, 1.0):
        files.append(OUT / "updates" / f"sigma-{sigma:g}.update.safetensors")
        train(sigma, files[-1])
    sys.argv = [
        "leakscope",
        "attack",
        *map(str, files),
        "--truth",
        str(OUT / "updates"),
        "--model",
        f"{__file__}:my_model",
    ]
    sys.argv += ["--iterations", "3" if QUICK else "200", "--out", str(OUT / "run")]
    print("$", *sys.argv)
    leakscope(standalone_mode=False)
