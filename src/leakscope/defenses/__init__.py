"""What a client does to its update before it leaves: transforms after training, DP-SGD and dropping inside it.

A defense is named by an option string, `sparsify:rate=0.9`; `+` applies several in order,
`clip:bound=1+gaussian:std=0.01`.
"""

from __future__ import annotations

from leakscope.defenses.base import Defense as Defense
from leakscope.defenses.base import Imitable as Imitable
from leakscope.defenses.base import TrainingDefense as TrainingDefense
from leakscope.defenses.base import Undefended as Undefended
from leakscope.defenses.base import Unit as Unit
from leakscope.defenses.censor import Censor as Censor
from leakscope.defenses.clip import Clip as Clip
from leakscope.defenses.dpsgd import DPSGD as DPSGD
from leakscope.defenses.drop import Drop as Drop
from leakscope.defenses.dual_prune import DualPrune as DualPrune
from leakscope.defenses.gaussian import Gaussian as Gaussian
from leakscope.defenses.outpost import Outpost as Outpost
from leakscope.defenses.pipeline import DEFENSES as DEFENSES
from leakscope.defenses.pipeline import Pipeline as Pipeline
from leakscope.defenses.pipeline import parse_defense as parse_defense
from leakscope.defenses.quantize import Quantize as Quantize
from leakscope.defenses.soteria import Soteria as Soteria
from leakscope.defenses.sparsify import Sparsify as Sparsify
