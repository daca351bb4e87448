"""Which cell it is: everything that tells two cells apart, and what people call each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

SHORT_KEY = 8


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What was attacked, how, and under which conditions.

    >>> print(Identity(attack="sme", dataset="femnist", writer="40", seed=0, round=3))
    sme · undefended · femnist writer 40 seed 0 · round 3
    """

    key: str = ""
    attack: str = ""
    defense: str = "none"
    dataset: str = ""
    writer: str | None = None
    client: str | None = None
    """The name that a recorder gave to the client; that of the file where neither client nor round is known."""
    seed: int | None = None
    n: int | None = None
    round: int | None = None
    tag: str | None = None
    combined: int = 1
    settings: tuple[tuple[str, Hashable], ...] = ()
    model: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    mode: str | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    fuse: str | None = None
    w0: str | None = None
    labels: str | None = None
    auxiliary: bool | None = None
    matching: str | None = None
    """As it was asked for."""
    restarts: int = 1
    schedule: str | None = None
    early_stop: float = 0.0
    budget: float | None = None
    iterations: int | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any], *, key: str) -> Identity:
        """That of a cell, from its facts in flat form."""
        same = {entry.name: facts[entry.name] for entry in fields(cls) if entry.name in facts}
        file = facts.get("update_file") if facts.get("round") is None else None
        made = {
            "key": key,
            "client": facts.get("client") or (Path(file).name if file else None),
            "combined": 1 + len(facts.get("more_updates", ())),
            "settings": tuple(sorted(facts["settings"].items())),
            "matching": None if facts["matching"] == "auto" else facts["matching"],
        }
        return cls(**{**same, **made})

    @property
    def holder(self) -> tuple[Hashable, ...]:
        """Whose images they are; the seed draws the images of a simulated client, and not those of a recorded one."""
        return (self.dataset, self.writer, self.client, None if self.client else self.seed, self.n)

    @property
    def update(self) -> tuple[Hashable, ...]:
        """Which update of whom."""
        return (*self.holder, self.round, self.tag, self.combined)

    @property
    def conditions(self) -> Mapping[str, Hashable]:
        """What else may differ: facts of model, training, knowledge and search, by their names."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name in CONDITIONS}

    @property
    def who(self) -> str:
        """`photos seed 0`, `femnist writer 40 seed 0`, `client a`."""
        parts = (
            "" if self.dataset == "recorded" else self.dataset,
            f"writer {self.writer}" if self.writer else "",
            f"client {self.client.removesuffix('.update.safetensors')}" if self.client else "",
            f"seed {self.seed}" if self.seed is not None and not self.client else "",
        )
        return " ".join(filter(None, parts))

    @property
    def when(self) -> tuple[str, ...]:
        """`round 3`, `sent`, `2 rounds together`, as far as they apply."""
        parts = (
            "" if self.round is None else f"round {self.round}",
            self.tag or "",
            f"{self.combined} rounds together" if self.combined > 1 else "",
        )
        return tuple(filter(None, parts))

    @property
    def protection(self) -> str:
        """The defense in words."""
        return "undefended" if self.defense == "none" else self.defense

    def __str__(self) -> str:
        return " · ".join(filter(None, (self.attack, self.protection, self.who, *self.when)))


CONDITIONS = frozenset(entry.name for entry in fields(Identity)) - {
    *("key", "attack", "defense", "dataset", "writer", "client", "n", "round", "tag", "combined")
}


def titles(cells: Sequence[Identity]) -> dict[str, str]:
    """key -> a title that no other of these cells has: cells of the same name are told apart by what differs.

    >>> titles([Identity(key=key, attack="sme", lr=lr) for key, lr in (("a", 0.1), ("b", 0.2))])
    {'a': 'sme · undefended · lr 0.1', 'b': 'sme · undefended · lr 0.2'}
    """
    alike: dict[str, list[Identity]] = {}
    for cell in cells:
        alike.setdefault(str(cell), []).append(cell)
    named = {cell.key: " · ".join([name, *_apart(cell, group)]) for name, group in alike.items() for cell in group}
    shared = Counter(named.values())
    return {key: name if shared[name] == 1 else f"{name} · {key[:SHORT_KEY]}" for key, name in named.items()}


def differing(cells: Sequence[Identity]) -> tuple[str, ...]:
    """The facts in which these cells differ, besides their titles."""
    facts = [{"n": cell.n, **cell.conditions} for cell in cells]
    return tuple(name for name in (facts[0] if facts else ()) if len({fact[name] for fact in facts}) > 1)


def _apart(cell: Identity, group: Sequence[Identity]) -> list[str]:
    facts = {"n": cell.n, **cell.conditions}
    return [_in_words(name, facts[name]) for name in differing(group)]


def _in_words(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{key}={part}" for key, part in value) or "usual settings"
    return f"{name.replace('_', ' ')} {'usual' if value is None else value}"
