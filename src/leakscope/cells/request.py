"""What an auditor asks for: the options of the command line, of `leakscope.audit` and of the dashboard's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from leakscope.cells.spec import AttackOptions, Cell, ClientSpec
from leakscope.settings import ATTACK, CLIENT, RUN, Option, declared

if TYPE_CHECKING:
    from leakscope.client.own import LocalClient
    from leakscope.data import Dataset

DEFAULT_ATTACK = "span-sme"


@dataclass(frozen=True, kw_only=True)
class Request(AttackOptions, ClientSpec):
    """One spelling everywhere; whatever is wrong with it is found when its cells are planned."""

    client: LocalClient | str | None = field(default=None, kw_only=False)
    """A client of your own, or where to find one: `client.py:client`. It brings data, model and training settings."""
    clients: Annotated[
        int, Option(help="audit seeds seed .. seed+K-1", panel=CLIENT, label="Clients", within="[1, 1e4]")
    ] = 1
    defenses: Annotated[
        Sequence[str],
        Option(
            help="repeatable: sparsify:rate=0.9, clip:bound=1+gaussian:std=0.01",
            panel=CLIENT,
            flag="--defense",
            harmless=True,
            example="none",
        ),
    ] = ("none",)
    plugins: Annotated[
        Sequence[str],
        Option(
            help="repeatable: mine.py or package.mine, with attacks, defenses, models, data sets or metrics of yours",
            panel=CLIENT,
            flag="--plugin",
        ),
    ] = ()
    data_root: Annotated[Path | None, Option(help="folder of the data sets [LEAKSCOPE_DATA]", panel=CLIENT)] = None
    attacks: Annotated[
        Sequence[str],
        Option(
            help="repeatable; see `leakscope list attacks`",
            panel=ATTACK,
            flag="--attack",
            harmless=True,
            example=DEFAULT_ATTACK,
        ),
    ] = (DEFAULT_ATTACK,)
    settings: Annotated[
        Sequence[str],
        Option(help="a part of an attack: nl-sme.lambda_p=0.01", panel=ATTACK, flag="--set", harmless=True),
    ] = ()
    iterations: Annotated[
        int | None,
        Option(
            help="steps of the attack [its own]",
            panel=ATTACK,
            label="Iterations",
            within="[1, 1e8]",
            example=1000,
        ),
    ] = None
    """The attack's own where it is not given: 1000 as in the paper, 300 for span-sme."""
    budget: Annotated[
        str | None,
        Option(help="time per cell, e.g. 2m: fewer iterations where needed", panel=ATTACK, example="2m", harmless=True),
    ] = None
    device: Annotated[str, Option(help="auto | cpu | cuda | mps", panel=RUN, harmless=True)] = "auto"
    weights: Annotated[Path | None, Option(help="LPIPS weights [LEAKSCOPE_WEIGHTS]", panel=RUN)] = None
    workers: Annotated[
        int,
        Option(help="parallel processes of one thread each", panel=RUN, label="Workers", within="[1, 4096]"),
    ] = 1
    executor: Annotated[Literal["local", "ray"], Option(help="local | ray: where the cells run", panel=RUN)] = "local"
    ray_address: Annotated[str | None, Option(help="HOST:PORT of a Ray cluster [one on this machine]", panel=RUN)] = (
        None
    )
    out: Annotated[Path | None, Option(help="run folder; the same command goes on with it [runs/NAME]", panel=RUN)] = (
        None
    )
    quiet: Annotated[bool, Option(help="show no progress", panel=RUN)] = False

    def __post_init__(self) -> None:
        for name, one in declared(type(self)).items():
            object.__setattr__(self, name, one.read(getattr(self, name)))

    def cells(self, dataset: Dataset | None = None) -> list[Cell]:
        """The grid, after every problem of the request was looked for; `dataset` saves reading it once more."""
        from leakscope.cells.planning import plan  # with torch; the options alone do without it

        return plan(self, dataset)
