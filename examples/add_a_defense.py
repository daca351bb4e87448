"""Add a defense of your own and see it in every table: `python examples/add_a_defense.py [--quick]`."""

import sys
from dataclasses import dataclass, replace
from typing import Annotated

import leakscope
from leakscope.client import Client
from leakscope.defenses import DEFENSES
from leakscope.defenses.base import Checked
from leakscope.options import Range
from leakscope.types import Update

QUICK = "--quick" in sys.argv


@dataclass(frozen=True, kw_only=True)
class Shrink(Checked):
    """Multiply the whole update: what a cautious person might try first. Cosine matching does not even notice."""

    factor: Annotated[float, Range("(0, 1]")] = 0.5

    def __call__(self, update: Update, *, client: Client, seed: int) -> Update:  # noqa: ARG002 - it needs neither
        return replace(update, delta={name: self.factor * value for name, value in update.delta.items()})


DEFENSES["shrink"] = Shrink

result = leakscope.audit(
    model="cnn-mnist",
    n=4 if QUICK else 10,
    epochs=1 if QUICK else 10,
    iterations=2 if QUICK else 200,
    attacks=["sme"],
    defenses=["none", "shrink:factor=0.1", "clip:bound=1+shrink"],  # it can be combined like any other
    out="runs/shrink",
)
for cell in result.cells:
    print(f"{cell['defense']:<32} PSNR {cell['metrics']['psnr']:.2f} dB")
print(result.report)
