"""Opacus: record a client that trains with a PrivacyEngine, and say what it has spent next to what it leaked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from leakscope.defenses import accounting
from leakscope.errors import Problem, refuse
from leakscope.integrations.facts import Facts, declared, hint, observed
from leakscope.integrations.recording import as_private, as_recorded, as_update, write
from leakscope.integrations.watching import plain, watching

DELTA = 1e-5


@contextmanager
def recording(
    path: str | os.PathLike[str],
    model: nn.Module,
    *,
    engine: Any,
    optimizer: Any,
    loader: Any,
    delta: float = DELTA,
    round_: int | None = None,
    client: str | None = None,
    truth: Sequence[Any] | None = None,
    **facts: Any,
) -> Iterator[None]:
    """Everything that `model` learns inside the `with` becomes one update file.

    `model`, `optimizer` and `loader` are what `engine.make_private` gave back. Sigma, clipping bound, sampling rate
    and the epsilon that the engine has spent so far, earlier rounds included, go into the file; the report shows
    them beside the leakage. `truth` and `facts` are those of the Flower recorder.
    """
    said, file = declared(facts), _checked(path, optimizer)
    private = None if truth is None else as_private(truth)
    poisson = hasattr(loader, "sample_rate")
    sent = _weights(model)
    before = counted(engine)
    with watching(sent) as seen:
        yield
    notes, n = guarantee(engine, delta, poisson=poisson), len(loader.dataset)
    found = observed(seen, n=n, batch_size=int(optimizer.expected_batch_size))
    applied = Facts(defense=_defense(optimizer, poisson=poisson))
    known = replace(found.over(said).over(applied), model=said.model or hint(seen))
    update = as_update(sent, _weights(model), known, seen, {"dpsgd": {**notes, "steps": counted(engine) - before}})
    producer = f"opacus {version('opacus')}"
    write(file, as_recorded(update, known, producer=producer, round_=round_, client=client, private=private), private)


def guarantee(engine: Any, delta: float = DELTA, *, poisson: bool = True) -> Mapping[str, object]:
    """What a PrivacyEngine has spent so far, in the words that reports read."""
    accounting.opacus()
    releases = tuple((float(sigma), float(rate), int(count)) for sigma, rate, count in engine.accountant.history)
    counting = f"over Poisson samples in all {counted(engine)} steps that the engine has counted"
    drawn = "" if poisson else "; this client's fixed batches are not covered by it"
    return accounting.guarantee(releases, delta, poisson=poisson, steps=counting, drawn=drawn)


def counted(engine: Any) -> int:
    """Steps that an engine has counted."""
    return sum(int(count) for _, _, count in engine.accountant.history)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in plain(model.state_dict()).items()}


def _defense(optimizer: Any, *, poisson: bool) -> str:
    sigma, clip = float(optimizer.noise_multiplier), optimizer.max_grad_norm
    bound = f",clip={float(clip):g}" if isinstance(clip, int | float) else ""  # one bound per layer has no short name
    return str(declared({"defense": f"dpsgd:sigma={sigma:g}{bound},poisson={'on' if poisson else 'off'}"}).defense)


def _checked(path: str | os.PathLike[str], optimizer: Any) -> Path:
    """The file to write, after an optimiser that adds no noise was refused."""
    file = Path(path)
    problems = []
    if not hasattr(optimizer, "noise_multiplier"):
        fix = "model, optimizer, loader = engine.make_private(...), and give what came back"
        problems.append(Problem("the optimizer was not made by PrivacyEngine.make_private", fix=fix))
    if not file.name.endswith(".update.safetensors"):
        problems.append(Problem(f"{file.name} is no update file", fix="NAME.update.safetensors"))
    refuse(problems)
    return file
