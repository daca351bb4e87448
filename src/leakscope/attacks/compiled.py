"""The gradient of the objective as one compiled function, where that pays and where it works.

The objective is traced once with torch.func and compiled as a plain graph of tensor operations, in which all that
differs from client to client is an input: cells of the same shape share one entry of the compile cache.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock, Timeout
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from leakscope.attacks.calculus import Functional, Tensors
from leakscope.attacks.composition import Composition
from leakscope.attacks.direction import Evaluated
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.objective import Objective
from leakscope.attacks.parts import named_tensors, with_tensors
from leakscope.attacks.surrogate import Start


class Differentiable(Protocol):
    """An objective, or a sum of several."""

    def evaluate(self, v: Variables, progress: Tensor) -> Evaluated: ...


Step = Callable[[Objective, Variables, Tensor], Evaluated]
COMPILE_SECONDS = 16
"""What compiling costs: 20 to 22 s on one quiet core, 5 s for the cells of that shape that come after."""
SAVED = 0.45
"""Part of an eager step that compiling saves (0.5 on cnn-mnist, 0.35 on cnn-cifar)."""
SPEED = 6e10
"""Operations per second of one core in an eager step, which takes about nine forward passes."""
LAUNCHES = 5e-3
"""Seconds of a step that a GPU waits for its next kernel, and that a CUDA graph saves."""
MODES = {"cuda": "reduce-overhead"}
"""How torch compiles by device: `reduce-overhead` replays a step as one CUDA graph."""
TOLERANCE = 5e-2
"""Relative difference to the eager gradient from which on a compiled one is not trusted.

Rounding makes up to 2e-3 at a random start, where terms cancel, and 1e-2 where an attack goes on from another one's
result; a branch that was traced wrongly makes far more.
"""
PATIENCE = 300.0
"""Seconds to wait for another process that compiles; it may hang, or be stopped, with the lock in its hands."""
FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError, ImportError, OSError)
"""What tracing somebody's model or calling somebody's compiler may raise; the eager step does without both."""


def pays(attack: Composition, known: Known) -> bool:
    """Whether compiling saves more than it costs: a function of attack, model, shapes and device, never of a clock."""
    saved = {"cpu": lambda: SAVED * 9 * forward_operations(known) / SPEED, "cuda": lambda: LAUNCHES}
    a_step = saved.get(known.w0.device.type, lambda: 0.0)()
    return a_step * attack.iterations * attack.restarts > COMPILE_SECONDS


def forward_operations(known: Known) -> float:
    """Floating-point operations of one pass of all dummy images through the net."""
    few = torch.zeros(2, *known.shape, dtype=known.w0.dtype, device=known.w0.device)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        torch.func.functional_call(known.module, {**known.split(known.w0), **known.buffers}, (few,))
    known.tape.clear()
    return float(counter.get_total_flops()) * known.n / len(few)


def why_not(attack: Composition) -> str | None:
    """What keeps an attack from being compiled at all."""
    if type(attack.surrogate).linearise is not Start.linearise:
        return "the surrogate simulates several steps"
    if attack.chunk is not None:
        return "dummy images go through the net in chunks"
    if not getattr(attack.images, "traceable", True):
        return "the images come from a network of their own"
    return None


@dataclass
class Evaluator:
    """Evaluates the objective, compiled if that was chosen; says what became of it."""

    compiling: bool = False
    note: str | None = None
    seconds: float = 0.0
    run: Step | None = None
    shapes: list[torch.Size] = field(default_factory=list)
    """Of the tensors in the compiled objective; one that has other shapes later is evaluated eagerly."""

    @classmethod
    def of(cls, attack: Composition, known: Known) -> Evaluator:
        wanted = attack.compile == "on" or (attack.compile == "auto" and pays(attack, known))
        hindrance = why_not(attack) if wanted else None
        return cls(wanted and hindrance is None, note=hindrance and f"eager: {hindrance}")

    def __call__(self, objective: Differentiable, v: Variables, progress: Tensor) -> Evaluated:
        if not isinstance(objective, Objective):
            return objective.evaluate(v, progress)
        if self.compiling and self.run is None:
            self._compile(objective, v, progress)
        if self.run is None or self.shapes != shapes(objective):
            return objective.evaluate(v, progress)
        return self.run(objective, v, progress)

    def notes(self) -> dict[str, object]:
        """What a result says about it: nothing where nothing was to be compiled."""
        seconds = {"compile_seconds": round(self.seconds, 1)} if self.seconds else {}
        return {"step": self.note, **seconds} if self.note else {}

    def _compile(self, objective: Objective, v: Variables, progress: Tensor) -> None:
        began = time.perf_counter()
        try:
            with in_turn(cache_folder() / "lock"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torch's compiler about its own parts
                self.run = compile_objective(objective, v, progress)
                problem = disagreement(self.run, objective, v, progress)
        except FAILURES as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        self.seconds = time.perf_counter() - began
        self.shapes = shapes(objective)
        self.note = "compiled" if problem is None else f"eager, because compiling failed: {problem}"
        if problem is not None:
            self.compiling, self.run = False, None


def compile_objective(objective: Objective, v: Variables, progress: Tensor) -> Step:
    """The objective for variables and parts of these shapes."""
    names: list[tuple[str, ...]] = []
    places = [place for place, _ in named_tensors(objective)]

    def flat(*values: Tensor) -> Tensors:
        mine = dict(zip(v, values, strict=False))
        other = with_tensors(objective, dict(zip(places, values[len(v) + 1 :], strict=True)))
        gradients, value, terms = replace(other, calculus=Functional()).evaluate(mine, values[len(v)])
        names[:] = [tuple(gradients), tuple(terms)]
        return (*gradients.values(), value, *terms.values())

    graph = make_fx(flat)(*v.values(), progress, *tensors(objective))
    compiled = torch.compile(graph, fullgraph=True, dynamic=False, mode=MODES.get(progress.device.type, "default"))

    def run(objective: Objective, v: Variables, progress: Tensor) -> Evaluated:
        with torch.no_grad():
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]  # what the last step returned may be overwritten now
            found = compiled(*v.values(), progress, *tensors(objective))
        gradients, terms = names
        return (
            dict(zip(gradients, found, strict=False)),
            found[len(gradients)],
            dict(zip(terms, found[len(gradients) + 1 :], strict=True)),
        )

    return run


def disagreement(run: Step, objective: Objective, v: Variables, progress: Tensor) -> str | None:
    """What is wrong with the compiled gradient at other values than the traced ones: a model may hide its branches.

    t is left out: near its best value rounding is all of its gradient, and what that is made of shows in the others.
    """
    generator = torch.Generator().manual_seed(0)
    other = {
        name: value + 0.01 * torch.randn(value.shape, generator=generator).to(value) if value.dim() else value
        for name, value in v.items()
    }
    expected, found = objective.evaluate(other, progress)[0], run(objective, other, progress)[0]
    for name, gradient in expected.items():
        if not gradient.dim():
            continue
        gap = float((gradient - found[name]).norm() / gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny))
        if not gap <= TOLERANCE:
            return f"the gradient of {name} differs by {gap:.2g} from the eager one"
    return None


def tensors(objective: Objective) -> Tensors:
    """All that differs from one client to another of the same shape, wherever it lies in the objective."""
    return tuple(value for _, value in named_tensors(objective))


def shapes(objective: Objective) -> list[torch.Size]:
    return [value.shape for value in tensors(objective)]


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """One compiles, and the others find it done."""
    lock = FileLock(path)
    with suppress(Timeout):
        lock.acquire(timeout=PATIENCE)
    try:
        yield
    finally:
        lock.release()


def cache_folder() -> Path:
    """Where compiled code is kept for the next process: in torch's own place once it has one, else the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(home / "leakscope" / "compiled")))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
