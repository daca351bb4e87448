"""Compare defenses on the same client: what leaks, next to the accuracy that each one costs.

`python examples/compare_defenses.py [--quick]`; the verb `leakscope compare` does the same.
"""

import sys

import leakscope

QUICK = "--quick" in sys.argv
DEFENSES = ("none", "clip:bound=0.1", "sparsify:rate=0.9", "gaussian:std=0.1", "dpsgd:epsilon=10,clip=1")

result = leakscope.audit(
    dataset="photos",
    model="cnn-mnist",
    n=4 if QUICK else 10,
    epochs=1 if QUICK else 10,
    iterations=2 if QUICK else 200,
    defenses=DEFENSES[:2] if QUICK else DEFENSES,
    rounds=1 if QUICK else 5,  # FedAvg rounds after which test accuracy is measured
    federation=2 if QUICK else 5,  # clients in each of them
    out="runs/defenses",
)
print(f"{'defense':<28} {'PSNR':>6} {'identified':>11} {'accuracy':>9}")
for cell in result.cells:
    metrics, accuracy = cell["metrics"], cell["accuracy"]["defended"]
    print(f"{cell['defense']:<28} {metrics['psnr']:6.2f} {metrics['identified']:11.2f} {accuracy:9.3f}")
print(result.report)
