"""Attacks, defenses, models, data sets and metrics of the auditor's own: `--plugin`, imported by every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache

from leakscope.attacks import ATTACKS
from leakscope.data import DATASETS
from leakscope.defenses import DEFENSES
from leakscope.errors import Problem, each, refuse
from leakscope.metrics import METRICS
from leakscope.user_code import code_fingerprint, import_code
from leakscope.victims import MODELS

REGISTRIES: dict[str, dict[str, object]] = {
    "ATTACKS": ATTACKS,  # type: ignore[dict-item]
    "DEFENSES": DEFENSES,  # type: ignore[dict-item]
    "MODELS": MODELS,  # type: ignore[dict-item]
    "DATASETS": DATASETS,  # type: ignore[dict-item]
    "METRICS": METRICS,  # type: ignore[dict-item]
}
OURS = {name: dict(registry) for name, registry in REGISTRIES.items()}
"""What leakscope itself registers; a plugin may add to it, not replace it."""


def load_plugins(places: Sequence[str]) -> None:
    """Import files (`mine.py`) or modules (`package.mine`) that register something; each once for each content."""
    each(lambda place: _load(place, code_fingerprint(place)), places)


def plugins_fingerprint(places: Sequence[str]) -> str | None:
    """16 hex digits of their code; None without plugins."""
    if not places:
        return None
    return hashlib.sha256(" ".join(map(code_fingerprint, places)).encode()).hexdigest()[:16]


@cache
def _load(place: str, content: str) -> None:  # noqa: ARG001 - a file that was edited is another one
    before = {name: dict(registry) for name, registry in REGISTRIES.items()}
    import_code(place)
    refuse(_complaints(place, before))


def _complaints(place: str, before: dict[str, dict[str, object]]) -> Iterator[Problem]:
    changed = {
        (kind, name)
        for kind, registry in REGISTRIES.items()
        for name, what in registry.items()
        if before[kind].get(name) is not what
    }
    if not changed:
        yield Problem(
            f"the plugin {place} registers nothing",
            fix='write DEFENSES["mine"] = Mine there, with `from leakscope.defenses import DEFENSES`; see '
            "docs/add-a-defense.md, docs/add-an-attack.md, docs/add-a-data-set.md and docs/add-a-metric.md",
        )
    for kind, name in sorted(changed):
        if name in OURS[kind]:
            REGISTRIES[kind][name] = OURS[kind][name]
            why = "results under that name would mean something else here than elsewhere"
            yield Problem(f"the plugin {place} replaces {kind}[{name!r}]", why, "register it under a name of its own")
