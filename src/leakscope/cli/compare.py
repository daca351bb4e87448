"""`leakscope compare`: attacks x defenses on the same clients, leakage next to what a defense costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.audit import DEFAULT_ATTACK, Request, run_cells
from leakscope.cli import options as o
from leakscope.cli.audit import conclude
from leakscope.cli.display import console, showing
from leakscope.errors import Problem, refuse
from leakscope.report.figures import draw

DEFENSES = ("none", "clip:bound=1", "sparsify:rate=0.9", "gaussian:std=0.1", "quantize:bits=4")


def compare(
    dataset: o.Dataset = "photos",
    data_root: o.DataRoot = None,
    model: o.Model = None,
    n: o.N = 50,
    epochs: o.Epochs = 20,
    batch_size: o.BatchSize = None,
    lr: o.Lr = 0.004,
    clients: o.Clients = 1,
    seed: o.Seed = 0,
    writer: o.Writer = None,
    w0: o.W0 = "fresh",
    defense: o.Defenses = None,
    attack: o.Attacks = None,
    set_: o.Settings = None,
    labels: o.Labels = "known",
    matching: o.Matching = "auto",
    iterations: o.Iterations = None,
    budget: o.Budget = None,
    rounds: Annotated[int, typer.Option("--rounds", help="FedAvg rounds before test accuracy is measured")] = 5,
    federation: Annotated[int, typer.Option("--federation", help="clients in each of those rounds")] = 5,
    device: o.Device = "auto",
    weights: o.MetricWeights = None,
    workers: o.Workers = 1,
    out: o.Out = None,
    json_: o.Json = False,
) -> None:
    """Attacks x defenses on the same clients, leakage next to accuracy cost, in one table and one picture."""
    counts = (("--rounds", rounds), ("--federation", federation))
    refuse(Problem(f"{name} {value} is not at least 1", fix=f"{name} 5") for name, value in counts if value < 1)
    request = Request(
        dataset=dataset, data_root=data_root, weights=weights, model=model, attacks=attack or [DEFAULT_ATTACK],
        settings=set_ or [], defenses=defense or DEFENSES, n=n, epochs=epochs, batch_size=batch_size, lr=lr,
        clients=clients, seed=seed, writer=writer, labels=labels, matching=matching, w0=w0, iterations=iterations,
        budget=budget, rounds=rounds, federation=federation, device=device,
    )  # fmt: skip
    cells = request.cells()
    folder = out or Path("runs") / f"compare-{cells[0].key[:8]}"
    with showing(cells, quiet=json_) as notice:
        result = run_cells(cells, folder, request, workers=workers, notice=notice)
    if result.complete:
        console.print(f"trade-off {draw(folder, 'tradeoff', folder / 'tradeoff.png')}", highlight=False)
    conclude(result, as_json=json_)
