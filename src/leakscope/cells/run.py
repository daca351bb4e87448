"""One cell of an audit: client x defense x attack x seed, from private images to a scored reconstruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from leakscope.attacks import build_attack
from leakscope.attacks.budget import Budget
from leakscope.attacks.checkpoints import Checkpoint
from leakscope.attacks.engine import Attack
from leakscope.attacks.few_steps import InFewSteps
from leakscope.attacks.fitting import Fit
from leakscope.attacks.memory import peak_memory_mb, reset_peak_memory
from leakscope.attacks.watch import Watch
from leakscope.cells.record import Record
from leakscope.cells.recorded import recorded_scene
from leakscope.cells.scene import Scene, Truth, own_scene, require_as_planned, simulated_scene
from leakscope.cells.spec import Cell, Own, Recorded
from leakscope.cells.utility import accuracy_after
from leakscope.client.own import LocalClient, load_client
from leakscope.client.start import fingerprint
from leakscope.labels import label_error
from leakscope.metrics.l_sim_fl import l_sim_fl
from leakscope.metrics.score import score, unscored
from leakscope.observation.firewall import Observation
from leakscope.plugins import load_plugins, plugins_fingerprint
from leakscope.prior.folder import refuse_overlap, require_same
from leakscope.types import Reconstruction, Scores

UNSCORED = "no truth file was given"


@dataclass(frozen=True)
class Outcome:
    """A finished cell: what goes to cell.json, and the pictures."""

    record: Record
    images: dict[str, Tensor]


def run_cell(
    cell: Cell,
    *,
    data_root: Path | None = None,
    weights: Path | None = None,
    own: LocalClient | None = None,
    watching: Callable[[Truth | None], Watch] = lambda _: Watch(),
    resume: Checkpoint | None = None,
) -> Outcome:
    """Simulate, defend, observe, attack, score. `own`: the client itself, where it cannot be found by its name."""
    load_plugins(cell.plugins)
    scene = stage(cell, data_root=data_root, own=own)
    _check_prior(cell, scene.truth)
    attack = compose(cell)
    reset_peak_memory(cell.device)
    seed, watch = cell.client.seed, watching(scene.truth)
    found = attack(scene.observation, seed=seed, device=cell.device, watch=watch, resume=resume)
    memory = peak_memory_mb(cell.device)
    scores = _unscored(found) if scene.truth is None else _score(scene.truth, scene.observation, found, weights)
    record = Record.of(
        cell,
        scene.observation,
        found,
        scores,
        attack_repr=repr(attack),
        notes=_notes(scene, found),
        memory=memory,
        writer=None if scene.truth is None else scene.truth.batch.writer,
        accuracy=_accuracy_cost(cell, data_root) if cell.client.rounds else None,
    )
    return Outcome(record, _pictures(scene.truth, found, scores))


def stage(cell: Cell, *, data_root: Path | None, own: LocalClient | None = None) -> Scene:
    """The scene of a cell."""
    w0, planned = cell.client.w0, cell.contents
    require_as_planned(f"the file {w0}", fingerprint(w0), planned.w0_fingerprint)
    require_as_planned("a plugin", plugins_fingerprint(cell.plugins), planned.plugins_fingerprint)
    if isinstance(cell.source, Recorded):
        return recorded_scene(cell, cell.source)
    if isinstance(cell.source, Own):
        return own_scene(cell, own or load_client(str(cell.source.own)))
    return simulated_scene(cell, data_root=data_root)


def _check_prior(cell: Cell, truth: Truth | None) -> None:
    """The prior must be the one that was planned with, and must not have seen the client's images."""
    if cell.attack.prior is None:
        return
    folder = Path(cell.attack.prior)
    require_same(folder, str(cell.contents.prior_fingerprint))
    if truth is not None:
        refuse_overlap(folder, truth.batch)


def compose(cell: Cell) -> Attack:
    """The attack of a cell with its run-wide options."""
    asked = cell.attack
    prior = {} if asked.prior is None else {"prior": asked.prior}
    attack = build_attack(asked.attack, {**asked.settings, **prior}, matching=asked.matching, schedule=asked.schedule)
    adaptations = (*attack.adaptations, InFewSteps(), Fit(memory=asked.memory))
    if asked.budget is not None:
        adaptations = (*adaptations, Budget(seconds=asked.budget / cell.combined))
    return replace(
        attack,
        adaptations=adaptations,
        iterations=asked.iterations,
        asked=attack.asked | ({"iterations"} if asked.iterations_asked else set()),
        history=asked.history,
        restarts=asked.restarts,
        early_stop=asked.early_stop or attack.early_stop,
        compile=asked.compile,
    )


def _accuracy_cost(cell: Cell, data_root: Path | None) -> dict[str, float]:
    """Test accuracy after the rounds, defended and undefended."""
    found = {}
    for name, defense in (("defended", cell.defense), ("undefended", "none")):
        found[name] = accuracy_after(
            cell.client,
            data_root,
            defense,
        )
    return found


def _score(truth: Truth, seen: Observation, found: Reconstruction, weights: Path | None) -> Scores:
    replay = partial(l_sim_fl, seen.victim, seen.w0, seen.delta, seen.training, normalisation=seen.normalisation)
    return score(truth.batch.images, found, candidates=truth.candidates, weights=weights, replay=replay)


def _unscored(found: Reconstruction) -> Scores:
    """What is known without the truth: how well the update is explained."""
    metrics = unscored(found)
    missing = {name: UNSCORED for name, value in metrics.items() if value is None}
    return Scores(metrics=metrics, baseline={}, per_image={}, assignment=(), missing=missing)


def _notes(scene: Scene, found: Reconstruction) -> dict[str, object]:
    """What defense and attack noted, how wrong the labels are that it went by, and what was found beforehand."""
    notes = {**scene.update.notes, **{name: note for name, note in found.notes.items() if name != "matching"}}
    if scene.truth is not None and scene.truth.batch.labels.dim() == 1:
        classes = scene.observation.victim.classes
        notes["label_error"] = label_error(
            torch.bincount(found.labels, minlength=classes), torch.bincount(scene.truth.batch.labels, minlength=classes)
        )
    if scene.findings:
        notes["preflight"] = [finding.as_note() for finding in scene.findings]
    return notes


def _pictures(truth: Truth | None, found: Reconstruction, scores: Scores) -> dict[str, Tensor]:
    """Originals and reconstructions in the originals' order, and what an attacker would show who knows nothing."""
    if truth is None:
        return {"reconstructions": found.images}
    order = list(scores.assignment)
    nothing = truth.candidates.mean(0) if len(truth.candidates) else truth.batch.images.mean((0, 2, 3), keepdim=True)[0]
    return {
        "originals": truth.batch.images,
        "reconstructions": found.images[order],
        "baseline": nothing.expand(truth.batch.images.shape[1:]).contiguous(),
    }
