"""From a table of the paper to cells: every entry is one attack in one setting, on several clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from leakscope import data
from leakscope.attacks import ATTACKS
from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell
from leakscope.errors import InputError, refusal
from leakscope.paper.targets import Setting, Target
from leakscope.paper.tracing import Trace
from leakscope.runs.places import Places

FIRST_SEED = 101
"""Clients for reports where a data set names no writers: this seed and the next ones. No default was chosen on them."""
CLIENTS = 5
"""The paper's number of trials."""
QUICK = "quick: a scaled-down grid on one client, to see that everything runs; its numbers say nothing of the attacks"

QUICK_SETTINGS = {
    "fedleak": ("fedleak.width=8",),
    "gi-nas": ("gi-nas.width=8", "gi-nas.candidates=2"),
    "dggi": ("dggi.steps=2",),
}
"""Narrow generators and a short search for `--quick`."""
CPU_ITERATIONS = {"fedleak": 400, "gi-nas": 400}
"""Where an iteration of a generator takes half a second and more; a target may cut it further, and tables say so."""


@dataclass(frozen=True)
class Entry:
    """One attack (or none: the client alone) in one setting of a table."""

    target: Target
    setting: Setting
    attack: str | None
    requests: tuple[Request, ...]
    """One for each client, each a single cell."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers must be told."""


@dataclass(frozen=True)
class Planned:
    """An entry with its cells, or the reasons why some of them cannot be."""

    entry: Entry
    cells: tuple[Cell, ...]
    reasons: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        """Under which the results of its clients are known."""
        entry = self.entry
        return [cell.key if entry.attack else Trace(entry.target.name, cell).key for cell in self.cells]


def entries(
    target: Target,
    *,
    clients: int,
    quick: bool,
    places: Places,
    present: Callable[[str], object] | None = None,
    device: str = "cpu",
) -> Iterator[Entry]:
    """Every entry of a target, in the paper's order; `present` says which data sets there are."""
    present = present or partial(data.where, root=places.data_root)
    for setting in target.settings:
        for attack in target.attacks or (None,):
            options, notes = _options(target, setting, attack), []
            if setting.instead and not present(options["dataset"]):
                options["dataset"] = setting.instead.dataset
                notes.append(setting.instead.why)
            if quick:
                options = scaled(options) | {"settings": (*options["settings"], *QUICK_SETTINGS.get(str(attack), ()))}
            elif device == "cpu" and attack in CPU_ITERATIONS:
                options["iterations"] = target.cpu_iterations or CPU_ITERATIONS[attack]
                notes.append(f"cut on a CPU: {options['iterations']} iterations")
            if attack is not None and attack in ATTACKS and ATTACKS[attack].auxiliary:
                options["prior"] = places.prior_of(options["dataset"])
            requests = tuple(
                Request(**options, **who, data_root=places.data_root, weights=places.weights)
                for who in clients_of(options["dataset"], clients)
            )
            yield Entry(target, setting, attack, requests, tuple(notes))


def clients_of(dataset: str, count: int) -> list[dict[str, Any]]:
    """The clients that reports are made on."""
    writers = data.dataset_info(dataset).reported
    if not writers:
        return [{"seed": FIRST_SEED + place} for place in range(count)]
    if count > (most := len(writers)):
        found = f"--clients {count}: {most} writers of {dataset} are for reports"
        raise refusal(found, fix=f"--clients {most}")
    return [{"writer": writer, "seed": int(writer)} for writer in writers[:count]]


def scaled(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same setting in small: N / 12, E / 5, B / 5, 10 iterations."""
    n = math.ceil(options["n"] / 12)
    return {
        **options,
        "n": n,
        "epochs": math.ceil(options.get("epochs", 20) / 5),
        "batch_size": min(n, math.ceil(options["batch_size"] / 5)),
        "iterations": 10,
        "history": 5,
    }


def plan(entry: Entry, datasets: Datasets) -> Planned:
    """The cells of an entry; what stands in the way of one is kept beside the others."""
    if entry.attack is not None and entry.attack not in ATTACKS:
        return Planned(entry, (), (f"the attack {entry.attack} is not in this installation",))
    cells, reasons = [], []
    for request in entry.requests:
        try:
            cells += request.cells(datasets.load(request))
        except InputError as error:
            reasons.append("; ".join(problem.found for problem in error.problems))
    return Planned(entry, tuple(cells), tuple(dict.fromkeys(reasons)))


def plan_without_data(entry: Entry) -> tuple[Cell, ...]:
    """The cells of an entry as far as they are known without the data: for reading results, not for running."""
    if entry.attack is not None and entry.attack not in ATTACKS:
        return ()
    requests = (replace(request, device="cpu") for request in entry.requests)
    return tuple(cell for request in requests for cell in grid(request, request.dataset, ""))


class Datasets:
    """Each data set is read once, and looked for once."""

    def __init__(self) -> None:
        self.found: dict[str, data.Dataset | InputError] = {}

    def load(self, request: Request) -> data.Dataset:
        if request.dataset not in self.found:
            try:
                self.found[request.dataset] = data.load(request.dataset, root=request.data_root)
            except InputError as error:
                self.found[request.dataset] = error
        found = self.found[request.dataset]
        if isinstance(found, InputError):
            raise found
        return found


def _options(target: Target, setting: Setting, attack: str | None) -> dict[str, Any]:
    """Fields of a Request; the attack's own come last, and its parameters are joined."""
    own = target.attack_options.get(attack or "", {})
    joined = (*setting.options.get("settings", ()), *own.get("settings", ()))
    options = {**target.options, **setting.options, **own}
    options["settings"] = tuple(text for text in joined if text.startswith(f"{attack}."))
    # a client without an attack is a cell all the same: it stands for the client
    return {**options, "attacks": (attack or "sme",)}
