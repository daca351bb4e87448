"""The attacks by name."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from leakscope.attacks import baselines, recipes
from leakscope.attacks.engine import Attack
from leakscope.attacks.reliability import Reliability
from leakscope.errors import InputError, Problem, refuse, unknown
from leakscope.options import read


@dataclass(frozen=True)
class AttackInfo:
    """An attack as `leakscope list attacks` shows it."""

    recipe: Callable[..., Attack]
    paper: str
    needs: str
    cost: str
    """Per iteration, relative to SME."""
    auxiliary: bool = False
    """Whether it uses a prior made of other images: `--prior`."""


_USUAL = "w0, update, model, loss, N, labels or their counts"
_SCALE = f"{_USUAL}; E, B and lr for the scale of a gradient"
ATTACKS: dict[str, AttackInfo] = {
    "dlg": AttackInfo(
        baselines.dlg,
        "Zhu, Liu, Han, NeurIPS 2019",
        "w0, update, model, loss, N; E, B and lr; no labels",
        "1x",
    ),
    "ig": AttackInfo(recipes.ig, "Geiping et al., NeurIPS 2020, as the NL-SME paper runs it", _USUAL, "1x"),
    "ig-official": AttackInfo(baselines.ig_official, "Geiping et al., NeurIPS 2020, their settings", _USUAL, "1x"),
    "sme": AttackInfo(recipes.sme, "Zhu, Yao, Blaschko, ICML 2023", _USUAL, "1x"),
    "nl-sme": AttackInfo(recipes.nl_sme, "Xia et al., eqs. 5-11", _USUAL, "1.1x"),
    "fedleak": AttackInfo(
        baselines.fedleak, "Fan et al., USENIX Security 2025", _SCALE, "2x and twice its generator: 4x at 32 channels"
    ),
    "fedleak-pixel": AttackInfo(baselines.fedleak_pixel, "Fan et al., on pixels", _SCALE, "2x"),
    "gi-nas": AttackInfo(
        baselines.gi_nas, "Yu et al., IEEE TIFS 2025", _USUAL, "1x and its generator: 5x at 32 channels, after a search"
    ),
    "dggi": AttackInfo(
        baselines.dggi,
        "after Wu et al., Information Fusion 2025",
        f"{_USUAL}; a diffusion prior of such images (--prior)",
        "1x and 50 passes through the prior",
        auxiliary=True,
    ),
    "unrolled": AttackInfo(
        baselines.unrolled,
        "Dimitrov et al., TMLR 2022",
        f"{_USUAL}; E, B and lr",
        "1.5x per simulated step, at least 5",
    ),
    "span-sme": AttackInfo(recipes.span_sme, "leakscope, docs/span-sme.md", _USUAL, "1.1x, a third of the iterations"),
}

MATCHINGS = ("auto", "global", "mask", "layerwise", "adaptive")


def build_attack(name: str, settings: Mapping[str, object], *, matching: str = "global") -> Attack:
    """The recipe `name` with its parameters, matched to the observed update as `matching` says."""
    if name not in ATTACKS:
        raise InputError(unknown("attack", name, ATTACKS))
    attack = ATTACKS[name].recipe(**read_settings(name, settings))
    if matching == "global":
        return attack
    return replace(attack, adaptations=(Reliability(mode=matching), *attack.adaptations))  # type: ignore[arg-type]


def read_settings(name: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Parameters of a recipe from strings or values, each checked against its declared type."""
    recipe = ATTACKS[name].recipe
    hints = typing.get_type_hints(recipe)
    known = inspect.signature(recipe).parameters
    problems, ready = [], {}
    for key, value in settings.items():
        if key not in known:
            problems.append(unknown(f"parameter of {name}", key, known))
            continue
        try:
            ready[key] = read(value, hints[key])
        except ValueError as error:
            problems.append(Problem(f"{name}.{key}={value} {error}"))
    refuse(problems)
    return ready
