"""`leakscope audit`: simulate a client, defend, attack, score, report."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.table import Table

from leakscope.audit import DEFAULT_ATTACK, AuditResult, Request, run_cells
from leakscope.cli import options as o
from leakscope.cli.display import console, showing


def audit(
    dataset: o.Dataset = "photos",
    data_root: o.DataRoot = None,
    model: o.Model = None,
    n: o.N = 50,
    epochs: o.Epochs = 20,
    batch_size: o.BatchSize = None,
    lr: o.Lr = 0.004,
    mode: o.Mode = "eval",
    clients: o.Clients = 1,
    seed: o.Seed = 0,
    writer: o.Writer = None,
    w0: o.W0 = "fresh",
    defense: o.Defenses = None,
    fuse: o.Fuse = None,
    attack: o.Attacks = None,
    set_: o.Settings = None,
    labels: o.Labels = "known",
    matching: o.Matching = "auto",
    iterations: o.Iterations = None,
    history: o.History = 50,
    restarts: o.Restarts = 1,
    schedule: o.Schedule = None,
    early_stop: o.EarlyStop = 0.0,
    budget: o.Budget = None,
    device: o.Device = "auto",
    weights: o.MetricWeights = None,
    workers: o.Workers = 1,
    out: o.Out = None,
    json_: o.Json = False,
) -> None:
    """Simulate a client (or several), defend, attack, score, report: the main job."""
    request = Request(
        dataset=dataset,
        data_root=data_root,
        weights=weights,
        model=model,
        attacks=attack or [DEFAULT_ATTACK],
        settings=set_ or [],
        defenses=defense or ["none"],
        n=n,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        mode=mode,
        clients=clients,
        seed=seed,
        writer=writer,
        fuse=fuse,
        labels=labels,
        matching=matching,
        w0=w0,
        iterations=iterations,
        history=history,
        restarts=restarts,
        schedule=schedule,
        early_stop=early_stop,
        budget=budget,
        device=device,
    )
    cells = request.cells()
    folder = out or Path("runs") / f"{dataset.partition(':')[0]}-{cells[0].key[:8]}"
    with showing(cells, quiet=json_) as notice:
        result = run_cells(cells, folder, request, workers=workers, notice=notice)
    conclude(result, as_json=json_)


def conclude(result: AuditResult, *, as_json: bool) -> None:
    """The table, the verdict and the path of the report; or one JSON document."""
    if as_json:
        print(json.dumps(dict(result.result)))
    else:
        console.print(table_of(result))
        console.print(f"[bold]{result.level.upper()}[/bold]  {result.verdict}")
        console.print(f"picture  {result.folder / 'reconstructions.png'}", highlight=False)
        console.print(f"report   {result.report}", highlight=False)
    if not result.complete:
        console.print("interrupted: the same command goes on from here")
        raise typer.Exit(130)
    if result.result["summary"]["failed"]:
        raise typer.Exit(3)


def table_of(result: AuditResult) -> Table:
    """One row per cell: scores next to what an attacker would score who knows nothing."""
    table = Table(box=None, header_style="bold")
    for column in (
        "client",
        "attack",
        "defense",
        "PSNR dB",
        "knowing nothing",
        "SSIM",
        "LPIPS",
        "identified",
        "accuracy",
        "seconds",
        "",
    ):
        table.add_column(column, justify="left" if column in ("client", "attack", "defense", "") else "right")
    for cell in result.cells:
        metrics, baseline, client = cell["metrics"], cell["baseline"], cell["client"]
        table.add_row(
            f"{cell['dataset']} {client.get('writer') or 'seed ' + str(client['seed'])}",
            cell["attack"],
            cell["defense"],
            _number(metrics.get("psnr"), 2),
            _number(baseline.get("psnr"), 2),
            _number(metrics.get("ssim"), 3),
            _number(metrics.get("lpips"), 3),
            _number(metrics.get("identified"), 2),
            _number((cell.get("accuracy") or {}).get("defended"), 3),
            _number(cell.get("seconds"), 0),
            "" if cell["status"] == "finished" else cell["status"],
        )
    return table


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
