"""Memory: how much an attack will take, chunks of dummy images, and a composition that takes less."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known
from leakscope.attacks.matching import per_tensor
from leakscope.attacks.memory import available_mb
from leakscope.attacks.optimisers import LEAN
from leakscope.attacks.surrogate import Start
from leakscope.errors import refusal

Memory = Literal["normal", "low"]
ACTIVATIONS_MB = {"normal": 1536, "low": 192}
"""What the images in one pass may take, per setting."""
PER_OUTPUT = 5.5
"""Bytes held at the peak of the two passes for each byte of layer outputs (measured on the paper's nets: 4 to 5)."""
PROCESS_MB, COPIES = 450, 12
"""torch and a data set (measured in audits on a CPU), and what every attack holds of the model: before and
after training, state, update, slopes."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Plans the passes so that they fit, says what they will take, and refuses what cannot fit."""

    memory: Memory = "normal"

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if self.memory == "low":
            attack = low_memory(attack, known)
        attack, why = in_chunks(attack, known, ACTIVATIONS_MB[self.memory])
        needed, there = estimate_mb(attack, known), available_mb(known.w0.device)
        if there is not None and needed > there:
            raise refusal(
                f"the attack needs about {needed:,.0f} MB and {there:,.0f} MB are free on {known.w0.device}",
                why=f"{known.n} images of {'x'.join(map(str, known.shape))}, {len(known.w0):,} weights",
                fix="--n smaller, --workers 1" if self.memory == "low" else "--memory low, or --n smaller",
            )
        note = {"needed_mb": round(needed), "setting": self.memory, "chunk": attack.chunk}
        return attack, known, {"memory": {**note, "why": why} if why else note}


def low_memory(attack: Composition, known: Known) -> Composition:
    """One second moment and one d per tensor: two copies of the model more than SME, P1 and its momentum, not four."""
    replaced = attack.optimiser == "adam" and "optimiser" not in attack.asked
    optimiser = "adam-lean" if replaced else attack.optimiser
    return replace(attack, matching=per_tensor(attack.matching, known), optimiser=optimiser)


def in_chunks(attack: Composition, known: Known, limit_mb: float) -> tuple[Composition, str | None]:
    """Chunks of equal size whose activations stay below the limit, where the model lets images go one by one."""
    whole = activations_mb(known) * known.n
    if attack.chunk is not None or whole <= limit_mb:
        return attack, None
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training for part in known.module.modules()):
        return attack, "all images in one pass: batch norm mixes them"
    if type(attack.surrogate).linearise is not Start.linearise:
        return attack, "all images in one pass: the surrogate simulates several steps"
    passes = math.ceil(whole / limit_mb)
    return replace(attack, chunk=math.ceil(known.n / passes)), f"{passes} passes"


def estimate_mb(attack: Composition, known: Known) -> float:
    """Peak memory of an attack: torch, copies of the model, and the activations of the images in one pass."""
    copy = known.w0.numel() * known.w0.element_size() / 2**20
    variables = {**attack.surrogate.variables(known), **attack.matching.variables(known)}
    moments = 2 if attack.optimiser in LEAN else 3
    large = sum(variable.start.numel() for variable in variables.values()) / len(known.w0)
    images = activations_mb(known) * (attack.chunk or known.n)
    return PROCESS_MB * (known.w0.device.type == "cpu") + copy * (COPIES + moments * large) + images


def activations_mb(known: Known) -> float:
    """What one image takes at the peak of the two passes."""
    outputs: list[int] = []

    def note(_: nn.Module, __: object, out: object) -> None:
        if isinstance(out, Tensor):
            outputs.append(out.numel() * out.element_size())

    leaves = [part for part in known.module.modules() if not list(part.children())]
    handles = [part.register_forward_hook(note) for part in leaves]
    few = torch.zeros(2, *known.shape, dtype=known.w0.dtype, device=known.w0.device)
    with torch.no_grad():
        torch.func.functional_call(known.module, {**known.split(known.w0), **known.buffers}, (few,))
    for handle in handles:
        handle.remove()
    known.tape.clear()
    return PER_OUTPUT * sum(outputs) / len(few) / 2**20
