"""Add an attack of your own, from parts: `python examples/add_an_attack.py [--quick]`."""

import sys

import leakscope
from leakscope.attacks import ATTACKS, AttackInfo
from leakscope.attacks.engine import Attack
from leakscope.attacks.priors import TotalVariation
from leakscope.attacks.surrogate import Linear

QUICK = "--quick" in sys.argv


def smooth_sme(*, tv: float = 0.05) -> Attack:
    """SME with a stronger total variation; `tv` becomes `--set smooth-sme.tv=0.1`."""
    return Attack(name="smooth-sme", surrogate=Linear(), priors=(TotalVariation(weight=tv),))


ATTACKS["smooth-sme"] = AttackInfo(smooth_sme, "mine", "w0, update, labels", "1x")

result = leakscope.audit(
    model="cnn-mnist",
    n=4 if QUICK else 10,
    epochs=1 if QUICK else 10,
    iterations=2 if QUICK else 200,
    attacks=["sme", "smooth-sme"],
    settings=["smooth-sme.tv=0.1"],
    out="runs/smooth-sme",
)
for cell in result.cells:
    print(f"{cell['attack']:<12} PSNR {cell['metrics']['psnr']:.2f} dB, {cell['seconds']:.0f} s")
print(result.report)
