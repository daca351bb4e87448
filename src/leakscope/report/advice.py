"""Recommendations, each drawn from the run's own results by one small rule.

A rule takes the cells of a run and gives an Advice or None. Rules never promise privacy: they say what was
measured, what that means, and what to try next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from leakscope.cells.record import Record
from leakscope.report.guarantee import guarantee_of
from leakscope.verdict.levels import find, is_scored, severity, worst_level

SAME_DB = 0.5
"""Two PSNR values closer than this, in dB, are called the same."""
COSTLY = 0.05
"""An accuracy loss above this share is called expensive."""
WEAK_EPSILON = 8.0
FEW_IMAGES = 10
LONG = 1000


@dataclass(frozen=True)
class Advice:
    """What to do, and the measurement that says so."""

    title: str
    why: str
    more: str = ""
    """Details for the full list, left out on the first screen."""


Rule = Callable[[Sequence[Record]], Advice | None]


def advise(cells: Sequence[Record]) -> tuple[Advice, ...]:
    """All recommendations for these cells, the most urgent first."""
    found = (rule(cells) for rule in RULES)
    return tuple(advice for advice in found if advice is not None)


def score_it(cells: Sequence[Record]) -> Advice | None:
    if any(is_scored(cell) for cell in cells):
        return None
    return Advice(
        "Score the reconstruction against the truth",
        "No cell of this run could be compared with the private images, so it is evidence of nothing. The "
        "owner of "
        "the data can give the truth file; it never has to leave their machine.",
    )


def stop_sending(cells: Sequence[Record]) -> Advice | None:
    """An undefended update that leaks, and nothing else was tried."""
    bare = worst_level([cell for cell in cells if cell.defense == "none"])
    if severity(bare) < severity("medium") or _defended(cells):
        return None
    return Advice(
        "Do not send this update to a server you do not trust with the images",
        f"Undefended, the leakage is {bare}. Compare defenses on the same client: leakscope audit "
        "--defense none --defense dpsgd:epsilon=10,clip=1 --defense gaussian:std=0.1 --defense sparsify:rate=0.9.",
    )


def best_defense(cells: Sequence[Record]) -> Advice | None:
    """Of the defenses tried, the one that leaks least; the cheaper one where two leak the same."""
    groups = _by_defense(_defended(cells))
    bare = worst_level([cell for cell in cells if cell.defense == "none"])
    levels = {name: worst_level(group) for name, group in groups.items()}
    ranked = sorted(groups, key=lambda name: (severity(levels[name]), _loss(groups[name]) or 0.0, _share(groups[name])))
    if not ranked or (len(ranked) == 1 and bare == "unknown"):
        return None
    name = ranked[0]
    price = _accuracy_cost(groups[name])
    if severity(levels[name]) >= max(severity(bare), severity("low")) and severity(bare) >= 0:
        return Advice(
            "None of the defenses tried is enough",
            f"The mildest, {name}, still leaks at level {levels[name]} (undefended: {bare}). Use a "
            "stronger setting, "
            "DP-SGD, or secure aggregation.",
        )
    before = "" if bare == "unknown" else f" where the undefended client has level {bare}"
    return Advice(
        f"Prefer {name} among the defenses tried",
        f"It leaves level {levels[name]}{before}.{price} This holds for the attacks of this run; a "
        "stronger one may "
        "find more.",
    )


def clipping_does_nothing(cells: Sequence[Record]) -> Advice | None:
    """A bound that does not bind, or a cosine attack: the score with clipping equals the score without."""
    pairs = _against_undefended(cells, "clip")
    same = [(bare, clipped) for bare, clipped in pairs if abs(bare - clipped) < SAME_DB]
    if not pairs or len(same) < len(pairs):
        return None
    bare, clipped = max(same)
    slack = all(cell.note("clip").get("binds") is False for cell in cells if cell.defense.startswith("clip"))
    reason = (
        "The update was smaller than the bound, so nothing was clipped."
        if slack
        else "These attacks compare the direction of the update, which scaling it down leaves as it was."
    )
    return Advice(
        "Do not count on clipping",
        f"Clipping changed nothing here ({clipped:.1f} dB with it, {bare:.1f} dB without). {reason} Clipping only "
        "prepares for noise.",
    )


def sparsity_still_leaks(cells: Sequence[Record]) -> Advice | None:
    group = [cell for cell in cells if cell.defense.startswith("sparsify")]
    level = worst_level(group)
    if severity(level) < severity("low"):
        return None
    return Advice(
        "Do not count on sparsification",
        f"The sparsified update still leaks at level {level}: the attacker sees which weights were dropped "
        "and "
        "matches the others.",
    )


def noise_has_a_price(cells: Sequence[Record]) -> Advice | None:
    losses = {name: _loss(group) for name, group in _by_defense(_defended(cells)).items()}
    costly = {name: loss for name, loss in losses.items() if loss is not None and loss > COSTLY}
    if not costly:
        return None
    worst = max(costly, key=lambda name: costly[name])
    return Advice(
        "Weigh leakage against accuracy",
        f"{worst} costs {100 * costly[worst]:.1f} points of test accuracy. A milder setting may lie on a "
        "better "
        "point of the trade-off: leakscope figure RUN --kind tradeoff shows it.",
    )


def epsilon_is_apart(cells: Sequence[Record]) -> Advice | None:
    found = [guarantee for cell in cells if (guarantee := guarantee_of(cell))]
    if not found:
        return None
    loosest = max(found, key=lambda guarantee: guarantee.epsilon or math.inf)
    weak = " At that size the guarantee is weak." if (loosest.epsilon or math.inf) > WEAK_EPSILON else ""
    return Advice(
        "Keep epsilon and measured leakage apart",
        f"DP-SGD ran with {loosest}.{weak} Epsilon bounds every attack, also those not tried; the level above is what "
        "these attacks reached. Neither replaces the other.",
        more=f"The accounting: {loosest.assumption}." if loosest.assumption else "",
    )


def aggregate(cells: Sequence[Record]) -> Advice | None:
    alone = [cell for cell in cells if not cell.fuse]
    fused = [cell for cell in cells if cell.fuse]
    if severity(worst_level(alone)) < severity("medium"):
        return None
    measured = f" In this run the mixed updates leak at level {worst_level(fused)}." if fused else ""
    return Advice(
        "Let the server see sums only",
        "The attack read the update of a single client. With secure aggregation it would see the sum over "
        "many."
        f"{measured} Running with --fuse measures what is left.",
    )


def more_images(cells: Sequence[Record]) -> Advice | None:
    leaky = [cell for cell in cells if is_scored(cell) and severity(find(cell).level) >= severity("medium")]
    sizes = [cell.client.n or 0 for cell in leaky]
    if not sizes or not 0 < min(sizes) <= FEW_IMAGES:
        return None
    return Advice(
        "Train on more images, or longer, per round",
        f"The client trained on {min(sizes)} images. The more images and local steps go into one update, "
        "the harder "
        "they are to tell apart. This is a help, not a defense.",
    )


def upper_bound_mode(cells: Sequence[Record]) -> Advice | None:
    if not any(cell.client.mode == "eval" for cell in cells):
        return None
    return Advice(
        "Read this as an upper bound if your clients train in training mode",
        "The client ran in evaluation mode: no dropout, fixed batch-norm statistics. That is the easiest "
        "case for "
        "the attacker. For a model that has neither layer it makes no difference.",
    )


def labels_assumed(cells: Sequence[Record]) -> Advice | None:
    granted = {cell.knowledge.labels for cell in cells} & {"known", "counts"}
    if not granted or severity(worst_level(cells)) < severity("low"):
        return None
    return Advice(
        "Repeat without the labels",
        "The attacker was given the labels of the images. A real server has to estimate them from the "
        "update, which "
        "often works: --labels recovered measures it.",
    )


def fresh_start(cells: Sequence[Record]) -> Advice | None:
    if severity(worst_level(cells)) < severity("low") or not all(cell.w0 == "fresh" for cell in cells):
        return None
    return Advice(
        "Repeat with a trained model",
        "The client started from untrained weights, as in the first round, where updates tell most. "
        "--w0 pretrain:epochs=3 shows a later round.",
    )


def attack_harder(cells: Sequence[Record]) -> Advice | None:
    """Nothing was found: was the search strong enough to say so?"""
    if worst_level(cells) not in ("none", "low"):
        return None
    longest = max((cell.iterations for cell in cells), default=0)
    short = f" The longest attack took {longest} iterations; give it {LONG} or more." if longest < LONG else ""
    names = sorted({cell.attack for cell in cells})
    return Advice(
        "Attack harder before you rely on this",
        f"Tried: {', '.join(names)}.{short} Restarts, more clients and other attacks can only raise the level.",
    )


def finish_it(cells: Sequence[Record]) -> Advice | None:
    loose = [cell for cell in cells if cell.status in ("failed", "interrupted")]
    if not loose:
        return None
    return Advice(
        "Finish the run",
        f"{len(loose)} of {len(cells)} cells failed or were interrupted. Starting the same command again continues it.",
    )


RULES: tuple[Rule, ...] = (
    score_it,
    stop_sending,
    best_defense,
    aggregate,
    clipping_does_nothing,
    sparsity_still_leaks,
    noise_has_a_price,
    attack_harder,
    more_images,
    epsilon_is_apart,
    labels_assumed,
    upper_bound_mode,
    fresh_start,
    finish_it,
)


def _defended(cells: Sequence[Record]) -> list[Record]:
    return [cell for cell in cells if cell.defense != "none" and is_scored(cell)]


def _by_defense(cells: Sequence[Record]) -> dict[str, list[Record]]:
    names = dict.fromkeys(cell.defense for cell in cells)
    return {name: [cell for cell in cells if cell.defense == name] for name in names}


def _loss(cells: Sequence[Record]) -> float | None:
    """Mean loss of test accuracy against the undefended client."""
    losses = [loss for cell in cells if (loss := cell.accuracy.loss) is not None]
    return fmean(losses) if losses else None


def _share(cells: Sequence[Record]) -> float:
    return max((cell.metrics.get("identified") or 0.0 for cell in cells), default=0.0)


def _accuracy_cost(cells: Sequence[Record]) -> str:
    loss = _loss(cells)
    if loss is None:
        return " What it costs in accuracy was not measured here."
    return f" Its price is {100 * loss:.1f} points of test accuracy."


def _against_undefended(cells: Sequence[Record], defense: str) -> list[tuple[float, float]]:
    """(PSNR without, PSNR with a defense) of the same attack on the same client."""

    def twin(cell: Record) -> tuple[object, ...]:
        return (cell.model, cell.attack, cell.client.epochs, *cell.identity.update)

    bare = {twin(cell): cell.metrics.get("psnr") for cell in cells if cell.defense == "none"}
    found = (
        (bare.get(twin(cell)), cell.metrics.get("psnr"))
        for cell in _defended(cells)
        if cell.defense.split(":")[0] == defense
    )
    return [(without, with_it) for without, with_it in found if without is not None and with_it is not None]
