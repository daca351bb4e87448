"""What a client does to its update before it leaves: transforms after training, DP-SGD and dropping inside it.

A defense is named by an option string, `sparsify:rate=0.9`; `+` applies several in order,
`clip:bound=1+gaussian:std=0.01`.
"""

from __future__ import annotations

from leakscope.defenses.base import Defense, Imitable, TrainingDefense, Unit
from leakscope.defenses.censor import Censor
from leakscope.defenses.clip import Clip
from leakscope.defenses.dpsgd import DPSGD
from leakscope.defenses.drop import Drop
from leakscope.defenses.dual_prune import DualPrune
from leakscope.defenses.gaussian import Gaussian
from leakscope.defenses.none import Undefended
from leakscope.defenses.outpost import Outpost
from leakscope.defenses.pipeline import DEFENSES, Pipeline, parse_defense
from leakscope.defenses.quantize import Quantize
from leakscope.defenses.soteria import Soteria
from leakscope.defenses.sparsify import Sparsify

__all__ = [
    "DEFENSES",
    "DPSGD",
    "Censor",
    "Clip",
    "Defense",
    "Drop",
    "DualPrune",
    "Gaussian",
    "Imitable",
    "Outpost",
    "Pipeline",
    "Quantize",
    "Soteria",
    "Sparsify",
    "TrainingDefense",
    "Undefended",
    "Unit",
    "parse_defense",
]
