"""What `leakscope list` shows. The registries import torch, so what they hold is shipped as catalogue.json as well.

`python -m leakscope.cli.catalogue` writes the file anew; a test fails where it is not what the registries hold.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
KINDS = ("attacks", "defenses", "datasets", "models", "metrics")
FILE = "catalogue.json"


def shipped() -> dict[str, Rows]:
    """What leakscope itself registers."""
    found: dict[str, Rows] = json.loads(resources.files("leakscope.cli").joinpath(FILE).read_text(encoding="utf-8"))
    return found


def live(plugins: Sequence[str] = ()) -> dict[str, Rows]:
    """What is registered in this process, with these plugins."""
    from leakscope.attacks import ATTACKS
    from leakscope.data import DATASETS
    from leakscope.defenses import DEFENSES
    from leakscope.metrics import METRICS
    from leakscope.plugins import load_plugins
    from leakscope.victims import MODELS

    load_plugins(plugins)
    return {
        "attacks": [
            {
                **_told(name, info.recipe),
                **{fact: getattr(info, fact) for fact in ("paper", "needs", "cost")},
                "parameters": {p.name: p.default for p in inspect.signature(info.recipe).parameters.values()},
            }
            for name, info in ATTACKS.items()
        ],
        "defenses": [{**_told(name, defense), "parameters": _fields(defense)} for name, defense in DEFENSES.items()],
        "datasets": [
            {
                "name": name,
                **{fact: getattr(info, fact) for fact in ("description", "model")},
                "clients": "its writers" if info.expected.by_writer else "random draws",
                **{fact: getattr(info, fact) for fact in ("for_priors", "licence", "homepage", "how")},
            }
            for name, info in DATASETS.items()
        ],
        "models": [_told(name, factory) for name, factory in MODELS.items()],
        "metrics": [
            {
                "name": name,
                "label": metric.title,
                **{fact: getattr(metric, fact) for fact in ("higher_is_better", "needs", "description", "meaning")},
            }
            for name, metric in METRICS.items()
        ],
    }


def _told(name: str, thing: object) -> dict[str, Any]:
    return {"name": name, "description": (inspect.getdoc(thing) or "").split("\n")[0]}


def _fields(defense: Any) -> dict[str, Any]:
    """Parameters with their defaults; one that has to be given has none."""
    fields = dataclasses.fields(defense) if dataclasses.is_dataclass(defense) else ()
    return {one.name: None if one.default is dataclasses.MISSING else one.default for one in fields if one.init}


if __name__ == "__main__":
    Path(__file__).with_name(FILE).write_text(json.dumps(live(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
