"""What a report may say that leaves the house: everything but images, names of persons, and names of places.

What is shown is what is known to be harmless; whatever else a command or a cell says is withheld.
"""

from __future__ import annotations

import dataclasses
import re
import shlex

from leakscope.cells.record import ClientFacts, Record
from leakscope.cells.request import Request
from leakscope.plugins import OURS
from leakscope.report.reading import Reading
from leakscope.settings import LocalTraining, declared

HIDDEN = "…"
OPTIONS = declared(Request)
OF_VERBS = frozenset({"--search", "--trials", "--metric"})
"""Options of a single verb whose values are harmless."""
FLAGS = frozenset({"--json", "--quick", "--combine", "--check"} | {o.flag for o in OPTIONS.values() if o.kind is bool})
VERBS = frozenset({"audit", "attack", "compare", "reproduce", "tune", "simulate"})
OF_A_PLUGIN = {"--dataset": "DATASETS", "--model": "MODELS"}
"""Options whose names may come from a plugin, which calls them what its author likes."""
A_PLACE = re.compile(r"[/\\]")
CLIENT = frozenset({"n", "seed", "steps", *declared(LocalTraining)})
"""Facts of a client; its writer, its id and the file it came from may name it."""
NOTES = frozenset({"prior"})
"""Notes that are withheld: a prior tells the name of the images it has seen."""


def without_names(run: Reading) -> Reading:
    """The run without what may name a person or a place: clients, paths, messages that quote them."""
    return dataclasses.replace(
        run,
        cells=tuple(map(_plain, run.cells)),
        planned=tuple(map(_plain, run.planned)),
        command=withhold(run.command),
        faults=(f"{len(run.faults)} parts cannot be read",) if run.faults else (),
    )


def _plain(cell: Record) -> Record:
    private = ClientFacts.model_fields.keys() - CLIENT
    changes = {
        "dataset": cell.dataset if cell.dataset in {*OURS["DATASETS"], "recorded"} else "own images",
        "model": cell.model.rpartition(":")[2],
        "w0": cell.w0 if OPTIONS["w0"].may_show(cell.w0) else "a file",
        "tag": None,
        "client": cell.client.model_copy(update=dict.fromkeys(private)),
        "notes": {name: note for name, note in cell.notes.items() if name not in NOTES},
        "error": "",
        "missing": dict.fromkeys(cell.missing, "not available here"),
    }
    return cell.model_copy(update=changes)


def withhold(command: str) -> str:
    """The command with nothing in it but what is known to be harmless.

    >>> withhold("leakscope audit --dataset folder:/home/eve --n 4 --out runs/a")
    'leakscope audit --dataset … --n 4 --out …'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return HIDDEN
    if words[:1] != ["leakscope"]:
        return HIDDEN
    shown, option = [], ""
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            option = "" if equals or name in FLAGS else name
            word = f"{name}={value if _harmless(name, value) else HIDDEN}" if equals else name
        else:
            word = word if (_harmless(option, word) if option else word in VERBS) else HIDDEN
            option = ""
        shown.append(word)
    return " ".join(["leakscope", *shown])


def _harmless(flag: str, value: str) -> bool:
    option = next((one for one in OPTIONS.values() if one.flag == flag), None)
    told = flag in OF_VERBS if option is None else option.may_show(value)
    ours = value in OURS.get(OF_A_PLUGIN.get(flag, ""), {value})
    return told and ours and not A_PLACE.search(value)
