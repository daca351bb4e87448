"""Files as an auditor writes them: a plugin, and a client with a module beside it."""

PLUGIN = """
from dataclasses import dataclass, replace

from leakscope.attacks import ATTACKS, AttackInfo
from leakscope.attacks.engine import Attack
from leakscope.defenses import DEFENSES


@dataclass(frozen=True, kw_only=True)
class Shrink:
    "Multiply the whole update."

    factor: float = 0.5

    def check(self, victim, training):
        pass

    def __call__(self, update, *, client, seed):
        return replace(update, delta={name: self.factor * value for name, value in update.delta.items()})


def plain() -> Attack:
    "SME with the usual parts."
    return Attack(name="plain")


DEFENSES["shrink"] = Shrink
ATTACKS["plain"] = AttackInfo(plain, "nobody", "w0, update, labels", "1x")
"""

CLIENT = """
import torch
from torch import nn
from leakscope import LocalClient, LocalTraining
from beside import CLASSES

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, CLASSES))

draw = torch.Generator().manual_seed(0)
images, others = torch.rand(4, 1, 8, 8, generator=draw), torch.rand(9, 1, 8, 8, generator=draw)
client = LocalClient(model=net, images=images, labels=torch.tensor([0, 1, 2, 0]), classes=CLASSES, candidates=others,
                     training=LocalTraining(epochs=1, batch_size=2, lr=0.1))
"""
BESIDE = "CLASSES = 3\n"
