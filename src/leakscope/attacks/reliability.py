"""Reliability-aware matching (paper, appendix D), chosen from the observed update alone.

Exact zeros where a trained net has none -> coordinate mask. Noise -> layer weights from an estimated signal-to-noise
ratio, and a denoised target. Otherwise the global cosine, which no clipping can change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known
from leakscope.attacks.matching import Imitating, Layerwise, Masked
from leakscope.attacks.surrogate import PATH, Bezier, Linear
from leakscope.defenses import Imitable, parse_defense

ZEROS = 0.5
"""A tensor with more exact zeros than this was suppressed: dead units leave up to about a third on the paper's nets."""
NOISE = 0.03
"""Share of the update's energy that is noise, from which on layers are weighted (clean updates: below 0.001)."""
CURVATURE = 1.0
"""Signal-to-noise ratio below which a free control point fits noise, and the straight line is used instead."""


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """`auto` looks at the update, `adaptive` at the declared defense; the others are used without looking."""

    mode: Literal["auto", "mask", "layerwise", "adaptive"] = "auto"

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        if self.mode != "auto":
            return CHOICES[self.mode](attack, known, "asked for")
        return choose(attack, known)


def choose(attack: Composition, known: Known) -> Adapted:
    """The matching that the update's own structure asks for."""
    suppressed = {name: zeros(value) for name, value in known.split(known.delta).items() if zeros(value) > ZEROS}
    if suppressed:
        worst = max(suppressed, key=lambda name: suppressed[name])
        why = f"{len(suppressed)} tensors were suppressed, {worst} has {100 * suppressed[worst]:.0f} % exact zeros"
        return mask(attack, known, why)
    share = noise_level(known) ** 2 * known.delta.numel() / float(known.delta.square().sum())
    if share > NOISE:
        return layerwise(attack, known, f"about {100 * min(share, 1):.0f} % of the update's energy is noise")
    return attack, known, {"matching": {"chosen": "global", "why": "no suppressed tensors and no noise to speak of"}}


def mask(attack: Composition, known: Known, why: str) -> Adapted:
    """L_mask = 1 - cos(m * g, m * delta) with m = [delta != 0]."""
    masked = Masked(inner=attack.matching, mask=(known.delta != 0).to(known.delta))
    return replace(attack, matching=masked), known, {"matching": {"chosen": "mask", "why": why}}


def layerwise(attack: Composition, known: Known, why: str) -> Adapted:
    """L_rel = 1 - sum_l alpha_l cos(g_l, delta*_l) / sum_l alpha_l, alpha_l = SNR_l / (1 + SNR_l)."""
    sigma, delta = noise_level(known), known.delta.cpu()  # not all devices have doubles
    layers = known.split(delta)
    ratios = torch.stack([signal_to_noise(value, sigma) for value in layers.values()])
    target = torch.cat([denoise(value, sigma).reshape(-1) for value in layers.values()])
    total = float(signal_to_noise(delta, sigma))
    alpha = (ratios / (1 + ratios)).to(known.delta)
    note: dict[str, object] = {"chosen": "layerwise", "why": why, "sigma": sigma, "snr": total}
    if total < CURVATURE and isinstance(attack.surrogate, Bezier) and not attack.asked & PATH:
        attack = replace(attack, surrogate=Linear(t=attack.surrogate.t, lr_t=attack.surrogate.lr_t))
        note["surrogate"] = "the straight line, because noise hides the curvature"
    matching = Layerwise(inner=attack.matching, alpha=alpha, target=target.to(known.delta))
    return replace(attack, matching=matching), known, {"matching": note}


def adaptive(attack: Composition, known: Known, why: str) -> Adapted:
    """L_adaptive = 1 - cos(D(g), delta) with the declared defense D, where D can be applied to a dummy update."""
    defenses = tuple(part for part in parse_defense(known.declared_defense).parts if isinstance(part, Imitable))
    if not defenses:
        return choose(attack, known)
    why = f"{why}: {known.declared_defense} was declared, and the dummy update goes through it"
    attack = replace(attack, matching=Imitating(inner=attack.matching, defenses=defenses))
    return attack, known, {"matching": {"chosen": "adaptive", "why": why}}


CHOICES: dict[str, Callable[[Composition, Known, str], Adapted]] = {
    "mask": mask,
    "layerwise": layerwise,
    "adaptive": adaptive,
}


def zeros(value: Tensor) -> float:
    """Share of exact zeros of a weight tensor; biases are too short to tell."""
    return float((value == 0).float().mean()) if value.dim() > 1 else 0.0


def noise_level(known: Known) -> float:
    """Standard deviation of noise on the update, without being told: the smallest of two kinds of upper bounds.

    A linear layer's update has a rank of about N; what lies beyond is noise. Elsewhere, the median of the magnitudes,
    which is far too high for a clean update of few large entries; so where no layer is wide enough, the last layer's
    update is asked, whose rows add up to zero behind a softmax.
    """
    tails, bounds = [], []
    for value in known.split(known.delta.cpu()).values():
        rank = math.ceil(1.2 * known.n)
        if value.dim() == 2 and min(value.shape) > rank + 8:
            tail = torch.linalg.svdvals(value.double())[rank:]
            rows, columns = value.shape
            tails.append(float((tail.square().sum() / ((rows - rank) * (columns - rank))).sqrt()))
        elif value.numel() >= 256:
            bounds.append(float(value.abs().median()) * 1.4826)
        if value.dim() == 2 and len(value) == known.classes and not tails:
            bounds.append(float(value.double().sum(0).square().mean().sqrt()) / math.sqrt(known.classes))
    return min((*tails, *bounds), default=0.0)


def signal_to_noise(value: Tensor, sigma: float) -> Tensor:
    """max(0, |value|^2 / (n sigma^2) - 1)."""
    return (value.double().square().mean() / max(sigma**2, 1e-300) - 1).clamp_min(0)


def denoise(value: Tensor, sigma: float) -> Tensor:
    """Optimal shrinkage of the singular values of a matrix (Gavish and Donoho 2017); other tensors stay as they are.

    In units of sigma * sqrt(columns), with beta = rows / columns <= 1: s -> sqrt((s^2 - beta - 1)^2 - 4 beta) / s.
    """
    if value.dim() != 2 or sigma == 0:
        return value
    if value.shape[0] > value.shape[1]:
        return denoise(value.T, sigma).T
    left, sizes, right = torch.linalg.svd(value.double(), full_matrices=False)
    beta, unit = value.shape[0] / value.shape[1], sigma * math.sqrt(value.shape[1])
    s = sizes / unit
    inside = ((s.square() - beta - 1).square() - 4 * beta).clamp_min(0)
    kept = torch.where(s > 1 + math.sqrt(beta), inside.sqrt() / s.clamp_min(1e-12), 0)
    shrunk: Tensor = (left * (kept * unit)) @ right
    return shrunk
