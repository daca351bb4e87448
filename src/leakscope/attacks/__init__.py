"""The attacks by name."""

from __future__ import annotations

from leakscope.attacks import baselines, recipes
from leakscope.attacks.registry import ATTACKS, AttackInfo, build_attack, by_model, read_settings

_USUAL = "w0, update, model, loss, N, labels or their counts"
_SCALE = f"{_USUAL}; E, B and lr for the scale of a gradient"
ATTACKS |= {
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
    "invert": AttackInfo(
        recipes.invert,
        "leakscope, docs/inversion.md",
        f"{_USUAL}; batch-norm statistics after training, in train mode",
        "1.1x, an eighth of the iterations, after linear programmes and 1200 passes through the first layers",
    ),
    "span-sme": AttackInfo(recipes.span_sme, "leakscope, docs/span-sme.md", _USUAL, "1.1x, a third of the iterations"),
}

__all__ = ["ATTACKS", "AttackInfo", "build_attack", "by_model", "read_settings"]
