"""Transformers need smaller steps on the images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn

from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known

if TYPE_CHECKING:
    from leakscope.attacks.engine import Attack


@dataclass(frozen=True, kw_only=True)
class SmallSteps:
    """Pixel rate `lr` and no decay where the model has layer norms: SME's own setting for its ViT."""

    lr: float = 0.1

    def __call__(self, attack: Attack, known: Known) -> tuple[Attack, Known, Mapping[str, object]]:
        if not has_layer_norm(known) or not isinstance(attack.images, Pixels):
            return attack, known, {}
        note = {"steps": f"rate {self.lr:g} without decay, because the model has layer norms"}
        return replace(attack, images=Pixels(lr=self.lr), schedule="constant"), known, note


def has_layer_norm(known: Known) -> bool:
    return any(isinstance(part, nn.LayerNorm) for part in known.module.modules())
