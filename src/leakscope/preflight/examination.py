"""The whole examination of a recorded update, cheapest checks first."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from leakscope.attacks.known import Known
from leakscope.attacks.reliability import NOISE
from leakscope.errors import Finding, error, warning
from leakscope.labels import Evidence
from leakscope.observation.firewall import guess, observe
from leakscope.observation.update_file import RecordedUpdate
from leakscope.preflight import traces
from leakscope.preflight.explained import alternatives, explain
from leakscope.preflight.laws import last_layer, norm_alignment, unevenness
from leakscope.preflight.settings import STRONG_DECAY, settings
from leakscope.preflight.structure import SAME, structure
from leakscope.types import ClientBatch, Knowledge, Update
from leakscope.victims import Victim

NOT_ZERO = 0.02
"""|sum of the last bias' update| over its L1 norm: clean 2.4e-6 at most; sigmoid and squared losses above 0.1."""
MISSING = 0.05
"""Share of the images whose softmax mass would be negative: clean 0, with wrong labels above 0.2."""
SCALE = 3.0
"""Pull or length off by more than this either way: clean between 0.59 and 1.19, lr wrong by ten is 0.1 or 10."""
TURNED = -0.95
"""Cosine of the pull with the expected one below which w0 and wT were swapped; wrong labels stay above -0.9."""
RANK = 1e-3
"""Energy beyond rank 1.3 N of the first fully connected layer: clean 1.1e-4 at most, mean of four clients 4.6e-3."""
TRAIN_MODE, EVAL_MODE = 0.1, 0.3
"""Alignment of batch-normed filters with their update: train mode 0.02, eval mode 0.57."""
EXPLAINED, BETTER = 0.5, 0.15
"""Cosine of the update with the private images' own gradient: clean 0.81 and more, the mean of four clients 0.51.

What another mode or normalisation explains better by more than this is taken to be the truth.
"""

DECLARE = "declare it when recording (defense=...), so that the report names it"


def examine(recorded: RecordedUpdate, victim: Victim, *, truth: ClientBatch | None = None) -> tuple[Finding, ...]:
    """Every finding; with errors in its structure, the numbers of an update are not looked at."""
    found = structure(recorded, victim, truth)
    if not any(finding.severity == "error" for finding in found):
        found += [*settings(recorded.update.training, victim.module, recorded.update.n), *_said(recorded, truth)]
        found += _numbers(recorded, victim, truth)
    return tuple(found)


def _said(recorded: RecordedUpdate, truth: ClientBatch | None) -> Iterator[Finding]:
    """What the header leaves out, or says otherwise than the truth file."""
    if recorded.normalisation is None:
        yield warning(
            "normalisation",
            "the file does not say how the images were normalised",
            why="the attack guesses a mean of 0.5 and a deviation of 0.25, and rebuilds images of another brightness",
            fix="record normalisation=Normalisation(mean, std); mean 0 and std 1 where the client does nothing",
        )
    hard = [one.labels for one in (recorded, truth) if one and one.labels is not None and one.labels.dim() == 1]
    if len(hard) == 2 and not torch.equal(hard[0].sort().values, hard[1].sort().values):
        yield error("labels", "the file and the truth file tell different labels", fix=SAME)


def _numbers(recorded: RecordedUpdate, victim: Victim, truth: ClientBatch | None) -> list[Finding]:
    update = recorded.update
    if half := traces.half_precision(update.w0):
        why = "differences between two rounded models lose small steps: many are zero, the rest is coarse"
        fix = "keep w0 and wT in float32 and record those"
        return [warning("half-precision", f"the weights are {half} values", why=why, fix=fix)]
    if recorded.defense != "none":  # what a declared defense does to the numbers is no surprise
        return []
    labels = recorded.labels if truth is None else truth.labels
    seen = observe(update, victim, knowledge=Knowledge(), normalisation=guess(victim.shape[0]), labels=None)
    known = Known.of(seen, torch.device("cpu"))
    marks = list(_values(update)) or list(_structure(known) if _sums_gradients(update) else ())
    if marks or update.training.optimizer != "sgd":
        return marks
    replayed = list(_replayed(update, victim, truth)) if truth is not None else []
    laws = list(_laws(Evidence(victim, update.w0, update.delta, update.training, update.n), labels))
    kinds = {finding.kind for finding in replayed}
    return [*replayed, *(finding for finding in laws if finding.kind not in kinds), *_mode(update, victim, kinds)]


def _sums_gradients(update: Update) -> bool:
    """Whether the update is a sum of gradients and nothing else to speak of."""
    training = update.training
    return training.optimizer == "sgd" and training.weight_decay * training.lr * training.steps(update.n) < STRONG_DECAY


def _values(update: Update) -> Iterator[Finding]:
    """Undeclared transforms of single values, with the matching that fits them."""
    if name := traces.rounded(update.delta):
        found = f"{name} holds no more than {traces.LEVELS} different values: the update was quantised"
        yield warning("quantised", found, fix=f"--matching auto or global; {DECLARE}")
    elif name := traces.suppressed(update.delta):
        found = f"the small values of {name} are zero: the update was sparsified"
        yield warning("sparsified", found, fix=f"--matching mask (auto chooses it); {DECLARE}")


def _structure(known: Known) -> Iterator[Finding]:
    """Undeclared noise or mixing, which a sum of N outer products has not."""
    if (share := traces.noise_share(known)) > NOISE:
        found = f"about {100 * min(share, 1):.0f} % of the update's energy looks like noise"
        yield warning("noised", found, fix=f"--matching layerwise (auto chooses it); {DECLARE}")
    elif (beyond := traces.beyond_rank(known)) is not None and beyond > RANK:
        yield warning(
            "aggregated",
            f"the update of {known.feature_layer} has more directions than {known.n} images explain",
            why="it looks like the mean over several clients, or like one of more images than n says",
            fix="record the update before aggregation, or n over all clients; simulate mixtures with --fuse",
        )


def _laws(evidence: Evidence, labels: torch.Tensor | None) -> Iterator[Finding]:
    """Loss, sign, rate and labels, from the last layer alone."""
    seen = last_layer(evidence, labels)
    if seen is None:
        return
    lr = evidence.training.lr
    if seen.sum > NOT_ZERO and not evidence.training.weight_decay:
        yield warning(
            "loss",
            "the update of the last bias does not add up to zero",
            why="with softmax cross-entropy it does, exactly: the client had another loss, or changed its update",
            fix="train with cross_entropy, or declare the defense that was applied",
        )
    elif seen.cosine is not None and seen.cosine < TURNED:
        yield _swapped()
    elif seen.size > 2.02 or (seen.scale is not None and seen.scale > SCALE):
        yield _rate(lr, max(seen.scale or 0.0, seen.size / 2), "larger")
    elif seen.missing is not None and seen.missing > MISSING + unevenness(evidence.training, evidence.n):
        yield warning(
            "labels",
            "the labels do not explain the update of the last layer",
            why=f"{100 * seen.missing:.0f} % of the images would have a negative probability: they have other labels, "
            "or the update is not that of a single client",
            fix="--labels recovered, or record the labels of this very client and round",
        )
    elif seen.scale is not None and 0 < seen.scale < 1 / SCALE and seen.fresh:
        yield _small(evidence, seen.scale)


def _small(evidence: Evidence, scale: float) -> Finding:
    clipped = traces.round_norm(evidence.delta, evidence.training.lr)
    if clipped is None:
        return _rate(evidence.training.lr, scale, "smaller")
    what, bound = clipped
    return warning(
        "clipped",
        f"the norm of the {what} is {bound:g}, {1 / scale:.0f} times less than lr explains: it was clipped",
        fix=f"--matching auto or global, which no clipping changes; declare defense='clip:bound={bound:g},on={what}'",
    )


def _swapped() -> Finding:
    return error(
        "swapped",
        "the update points uphill: w0 and wT were swapped",
        why="an update is w0 - wT, which lies along the gradient",
        fix="record w0 as the model that was received, and update = w0 - wT",
    )


def _rate(lr: float, factor: float, how: str) -> Finding:
    times = factor if how == "larger" else 1 / factor
    return warning(
        "learning-rate",
        f"the update is about {times:.0f} times {how} than lr = {lr:g} explains",
        why="recovered labels and L_sim^FL depend on lr, E and B; the update may also have been scaled",
        fix=f"record the lr that the client used; {float(f'{lr * factor:.1g}'):g} would fit",
    )


def _replayed(update: Update, victim: Victim, truth: ClientBatch) -> Iterator[Finding]:
    """Against the gradient of the private images themselves."""
    seen = explain(update, victim, truth)
    if seen.cosine < -EXPLAINED:
        yield _swapped()
        return
    others = alternatives(update, victim, truth) if seen.cosine < 1 - BETTER / 2 else {}
    best = max(others, key=lambda name: others[name].cosine, default="")
    if best and others[best].cosine > max(EXPLAINED, seen.cosine + BETTER):
        yield OTHER_SCALES.get(best) or _other_mode(update)
    elif seen.cosine < EXPLAINED:
        yield warning(
            "unexplained",
            f"the private images do not explain the update (cosine {seen.cosine:.2f})",
            why="another client's truth file, other labels, another model, or a mean over several clients",
            fix="give the truth file of the same client and round, and the model that was trained",
        )
    elif not 1 / SCALE < seen.ratio < SCALE:
        yield _rate(update.training.lr, seen.ratio, "larger" if seen.ratio > 1 else "smaller")


def _mode(update: Update, victim: Victim, known: set[str]) -> Iterator[Finding]:
    if "mode" in known or update.training.weight_decay:
        return
    seen = norm_alignment(victim, update.w0, update.delta)
    if seen is not None and (seen < TRAIN_MODE if update.training.mode == "eval" else seen > EVAL_MODE):
        yield _other_mode(update)


def _other_mode(update: Update) -> Finding:
    declared = update.training.mode
    actual = "train" if declared == "eval" else "eval"
    return warning(
        "mode",
        f"the client trained in {actual} mode, the file says {declared}",
        why="batch norms take their statistics from the batch in train mode, from storage in eval mode",
        fix=f"record mode={actual!r}",
    )


OTHER_SCALES = {
    "plain": warning(
        "normalisation",
        "the update fits images that were not normalised, the file says they were",
        fix="record the normalisation that the client applies: mean 0 and std 1 for none",
    ),
    "standardised": warning(
        "normalisation",
        "the update fits images of mean 0 and deviation 1, the file says they were normalised in another way",
        fix="record the normalisation that the client applies: the mean and deviation of its data set",
    ),
}
