"""Small Flower apps, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from torch import nn

from leakscope.client.training import batches
from leakscope.integrations.flower_local import run_apps
from leakscope.types import ClientBatch, LocalTraining, stream

TRAINING = LocalTraining(epochs=2, batch_size=2, lr=1 / 256, mode="train")
"""lr is a power of two: lr * g is exact, however it is added."""


def random_batch(n: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(n, 1, 8, 8, generator=stream(seed, "federation")), torch.arange(n) % 3


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))


def train_plainly(model: nn.Module, x: torch.Tensor, y: torch.Tensor, *, seed: int, training: LocalTraining) -> None:
    """An ordinary PyTorch loop in the batch order of our simulator."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=training.lr)
    model.train(training.mode == "train")
    for chosen in batches(len(x), training, seed=seed):
        optimizer.zero_grad()
        criterion(model(x[chosen]), y[chosen]).backward()
        optimizer.step()


def client_app(
    mods: list[Any],
    model: Callable[[], nn.Module] = net,
    *,
    batch: ClientBatch | None = None,
    training: LocalTraining = TRAINING,
    send: Callable[[nn.Module], ArrayRecord] = lambda model: ArrayRecord(model.state_dict()),
) -> ClientApp:
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        module, partition = model(), int(context.node_config["partition-id"])
        names = list(module.state_dict())
        arrived = [torch.as_tensor(array.numpy()).float() for array in message.content["arrays"].values()]
        module.load_state_dict(dict(zip(names, arrived, strict=True)))
        x, y = (batch.normalisation.apply(batch.images), batch.labels) if batch else random_batch(seed=partition)
        train_plainly(module, x, y, seed=partition, training=training)
        metrics = MetricRecord({"num-examples": len(x)})
        return Message(RecordDict({"arrays": send(module), "metrics": metrics}), reply_to=message)

    return app


def federate(
    client: ClientApp,
    start: ArrayRecord,
    *,
    strategy: Strategy | None = None,
    rounds: int = 1,
    clients: int = 1,
    run_config: dict[str, Any] | None = None,
    train_config: dict[str, Any] | None = None,
) -> Result:
    server, found = ServerApp(), []
    strategy = strategy or FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)

    @server.main()
    def main(grid: Grid, _: Context) -> None:
        config = ConfigRecord(train_config or {})
        found.append(strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, train_config=config))

    run_apps(server, client, clients=clients, run_config=run_config)
    return found[0]
