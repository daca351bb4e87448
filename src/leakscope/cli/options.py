"""The options that several verbs share: one spelling everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CLIENT, ATTACK, RUN = "The client", "The attack", "The run"


def _option(*names: str, help: str, panel: str, **more: object) -> typer.models.OptionInfo:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)  # type: ignore[call-overload, no-any-return]


Dataset = Annotated[str, _option("--dataset", help="photos, femnist, cifar100, ..., folder:PATH", panel=CLIENT)]
DataRoot = Annotated[Path | None, _option("--data-root", help="folder of the data sets [LEAKSCOPE_DATA]", panel=CLIENT)]
Model = Annotated[str | None, _option("--model", help="a registered model or package.module:factory", panel=CLIENT)]
N = Annotated[int, _option("--n", help="private images of the client", panel=CLIENT)]
Epochs = Annotated[int, _option("--epochs", help="local epochs E", panel=CLIENT)]
BatchSize = Annotated[int | None, _option("--batch-size", help="mini-batch B [min(10, n)]", panel=CLIENT)]
Lr = Annotated[float, _option("--lr", help="local learning rate", panel=CLIENT)]
Mode = Annotated[str, _option("--mode", help="client trains in eval | train mode", panel=CLIENT)]
Clients = Annotated[int, _option("--clients", help="audit seeds seed .. seed+K-1", panel=CLIENT)]
Seed = Annotated[int, _option("--seed", help="client, initial weights, batch order, dummy start", panel=CLIENT)]
Writer = Annotated[str | None, _option("--writer", help="FEMNIST writer by value or name, or `pooled`", panel=CLIENT)]
W0 = Annotated[str, _option("--w0", help="fresh | pretrain:epochs=3 | FILE.safetensors", panel=CLIENT)]
Defenses = Annotated[
    list[str] | None,
    _option("--defense", help="repeatable: sparsify:rate=0.9, clip:bound=1+gaussian:std=0.01", panel=CLIENT),
]
Fuse = Annotated[str | None, _option("--fuse", help="rho=0.75,clients=4: the server sees a mixture", panel=CLIENT)]
Attacks = Annotated[
    list[str] | None, _option("--attack", help="repeatable; see `leakscope list attacks`", panel=ATTACK)
]
Settings = Annotated[list[str] | None, _option("--set", help="a part of an attack: nl-sme.lambda_p=0.01", panel=ATTACK)]
Labels = Annotated[str, _option("--labels", help="known | counts | recovered | none", panel=ATTACK)]
Matching = Annotated[str, _option("--matching", help="auto | global | mask | layerwise | adaptive", panel=ATTACK)]
Iterations = Annotated[int | None, _option("--iterations", help="steps of the attack [its own]", panel=ATTACK)]
History = Annotated[int, _option("--history", help="a history row every so many iterations", panel=ATTACK)]
Restarts = Annotated[int, _option("--restarts", help="independent starts, best by objective", panel=ATTACK)]
Schedule = Annotated[
    str | None, _option("--schedule", help="paper | cosine | constant [the attack's own]", panel=ATTACK)
]
EarlyStop = Annotated[
    float, _option("--early-stop", help="stop when the objective falls by less than this part", panel=ATTACK)
]
Budget = Annotated[
    str | None, _option("--budget", help="time per cell, e.g. 2m: fewer iterations where needed", panel=ATTACK)
]
Device = Annotated[str, _option("--device", help="auto | cpu | cuda | mps", panel=RUN)]
MetricWeights = Annotated[Path | None, _option("--weights", help="LPIPS weights [LEAKSCOPE_WEIGHTS]", panel=RUN)]
Workers = Annotated[int, _option("--workers", help="parallel processes of one thread each", panel=RUN)]
Out = Annotated[Path | None, _option("--out", help="run folder; started again it goes on", panel=RUN)]
Json = Annotated[bool, _option("--json", help="one JSON document on stdout, everything else on stderr", panel=RUN)]
