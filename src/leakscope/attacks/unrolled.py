"""The simulation attack: the client's own training on the dummy images, differentiated from end to end.

w_{s+1} = w_s - m_s, m_s = mu m_{s-1} + nu_s (grad loss(w_s; batch s) + decay w_s), for s = 0 .. S-1; the dummy update
is w0 - w_S. The way back is the adjoint recursion: with lambda = dL/dw_{s+1} and kappa = dL/dm_s,

    a = kappa - lambda,    dL/dx += nu_s d<g_s, a>/dx,    lambda += nu_s (d<g_s, a>/dw + decay a),    kappa = mu a

so no graph spans more than one step. States are kept at every k-th step and between two of them while going back
through these: k = ceil(sqrt(S)) makes that 2 sqrt(S) weight vectors, for one more gradient per step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from leakscope.attacks.calculus import Pull, Tensors
from leakscope.attacks.composition import Adapted, Composition
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.passes import Passes
from leakscope.attacks.surrogate import Start
from leakscope.errors import Problem, refuse
from leakscope.types import stream

STEADY = 0.1
"""Largest rate of a coarse step at which the simulated path still follows the true one (lr 0.004, measured)."""


class Step(NamedTuple):
    """One step of the simulated client."""

    batch: Tensor
    """(b,): which dummy images."""
    rate: float


class State(NamedTuple):
    w: Tensor
    """(p,)"""
    m: Tensor | None
    """(p,): the last move, where there is momentum."""


@dataclass(frozen=True, kw_only=True)
class Unrolled(Start):
    """`full`: E ceil(N/B) mini-batch steps, in `order` or in the same random one every epoch (Dimitrov et al. 2022).
    `epochs`: E full-batch steps of rate lr ceil(N/B). `coarse`: S full-batch steps that cover the same way.

    Where there are E dummy sets, epoch e trains on the e-th.
    """

    steps: Literal["full", "epochs", "coarse"] = "coarse"
    count: int | None = None
    """S; None: as few as keep the rate below 0.1, at least 5."""
    order: tuple[tuple[int, ...], ...] | None = None
    """The client's own mini-batches, one tuple of indices per step, where somebody knows them."""

    def plan(self, known: Known, images: int) -> list[Step]:
        """All steps, for so many dummy images: N or E N."""
        return list(PLANS[self.steps](self, known, images))

    def linearise(self, v: Variables, known: Known, inputs: Tensors, passes: Passes) -> tuple[Tensors, Pull]:  # noqa: ARG002
        """(*update, loss of the last step) for x (M, C, H, W) and, where labels are learned, y (N, classes)."""
        run = Simulation(known, inputs, self.plan(known, len(inputs[0])))
        last, loss = run.forward()
        update = known.split(known.w0 - last.w)
        return (*update.values(), loss), run.pull


@dataclass
class Simulation:
    """One run of the simulated client, forward and back."""

    known: Known
    inputs: Tensors
    steps: list[Step]

    def __post_init__(self) -> None:
        training = self.known.training
        self.momentum, self.decay = training.momentum, training.weight_decay
        self.stride = max(1, math.isqrt(max(len(self.steps) - 1, 0)) + 1)
        self.kept: list[State] = []

    def forward(self) -> tuple[State, Tensor]:
        """The last state and the loss at the last step; every k-th state is kept."""
        w = self.known.w0
        state = State(w, torch.zeros_like(w) if self.momentum else None)
        loss = w.new_zeros(())
        for s, step in enumerate(self.steps):
            if s % self.stride == 0:
                self.kept.append(state)
            state, loss = self.move(state, step)
        return state, loss

    def move(self, state: State, step: Step) -> tuple[State, Tensor]:
        """One step without a graph, and the loss before it."""
        with torch.no_grad():
            g, loss = self.gradient(state.w, self.known, *self.batch(step))
            g = g.add_(state.w, alpha=self.decay) if self.decay else g
            m = g.mul_(step.rate) if state.m is None else g.mul_(step.rate).add_(state.m, alpha=self.momentum)
            return State(state.w - m, m if self.momentum else None), loss

    def pull(self, slopes: Tensors) -> Tensors:
        """From the gradient with respect to the update, tensor by tensor, to those of the inputs."""
        found = [torch.zeros_like(value) for value in self.inputs]
        lam = -self.known.join(slopes[: len(self.known.sizes)])
        kappa = torch.zeros_like(lam) if self.momentum else None
        while self.kept:
            start = self.stride * (len(self.kept) - 1)
            steps = self.steps[start : start + self.stride]
            states = [self.kept.pop()]
            for step in steps[:-1]:
                states.append(self.move(states[-1], step)[0])
            for step in reversed(steps):
                a = -lam if kappa is None else kappa - lam
                bend, slope = self.back(states.pop().w, step, a)
                lam = lam.add_(bend, alpha=step.rate)
                lam = lam.add_(a, alpha=step.rate * self.decay) if self.decay else lam
                kappa = None if kappa is None else self.momentum * a
                for total, piece in zip(found, slope, strict=True):
                    total.index_add_(0, step.batch % len(total), piece, alpha=step.rate)
        return tuple(found)

    def back(self, w: Tensor, step: Step, a: Tensor) -> tuple[Tensor, Tensors]:
        """d<g, a>/dw (p,), and d<g, a> by the step's images and, where they are learned, its labels."""
        w = w.detach().requires_grad_()
        inputs = tuple(value[step.batch % len(value)].requires_grad_() for value in self.inputs)
        with torch.enable_grad():
            g, _ = self.gradient(w, self.known, inputs[0], *(inputs[1:] or self.batch(step)[1:]))
            along = torch.dot(g, a)
        bend, *slopes = torch.autograd.grad(along, (w, *inputs), allow_unused=True, materialize_grads=True)
        return bend, tuple(slopes)

    def batch(self, step: Step) -> tuple[Tensor, Tensor]:
        """The images of a step and their labels."""
        labels = self.known.labels
        y = self.inputs[1] if labels is None else labels
        return self.inputs[0][step.batch], y[step.batch % len(y)]

    @staticmethod
    def gradient(w: Tensor, known: Known, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean gradient (p,) and mean loss over the images of a step."""
        dummy = known.gradient(known.split(w), x, y)
        scale = known.n / len(x)  # known.gradient divides by N
        return known.join(dummy.update) * scale, dummy.loss.detach() * scale


def full(part: Unrolled, known: Known, images: int) -> Iterator[Step]:
    n, training = known.n, known.training
    if part.order is not None:
        batches = [torch.tensor(batch) for batch in part.order]
    else:
        once = torch.split(torch.randperm(n, generator=stream(0, "unrolled order")), training.batch_size)
        batches = list(once) * training.epochs
    per_epoch = math.ceil(n / training.batch_size)
    for s, batch in enumerate(batches):
        copy = (s // per_epoch) * n if images > n else 0
        yield Step((batch + copy).to(known.w0.device), training.lr)


def even(part: Unrolled, known: Known, images: int, *, count: int) -> Iterator[Step]:  # noqa: ARG001
    """`count` full-batch steps; with E dummy sets each takes the set of its epoch."""
    n, training = known.n, known.training
    everyone = torch.arange(n, device=known.w0.device)
    for s in range(count):
        copy = (s * training.epochs // count) * n if images > n else 0
        yield Step(everyone + copy, training.lr * training.steps(n) / count)


def epochs(part: Unrolled, known: Known, images: int) -> Iterator[Step]:
    return even(part, known, images, count=known.training.epochs)


def coarse(part: Unrolled, known: Known, images: int) -> Iterator[Step]:
    total = known.training.steps(known.n)
    wanted = part.count or max(5, math.ceil(known.training.lr * total / STEADY))
    return even(part, known, images, count=min(wanted, total))


PLANS = {"full": full, "epochs": epochs, "coarse": coarse}


@dataclass(frozen=True, kw_only=True)
class Trainable:
    """Refuses clients whose training the simulation cannot follow."""

    def __call__(self, attack: Composition, known: Known) -> Adapted:
        training, part = known.training, attack.surrogate
        assert isinstance(part, Unrolled)
        problems = []
        if training.optimizer != "sgd":
            problems.append(
                Problem(
                    f"unrolled cannot simulate a client that trains with {training.optimizer}",
                    why="only SGD is differentiated",
                    fix="--attack span-sme",
                )
            )
        if training.momentum and part.steps != "full":
            problems.append(
                Problem(
                    f"unrolled.steps={part.steps} cannot follow a momentum of {training.momentum:g}",
                    why="fewer steps build up another momentum",
                    fix="--set unrolled.steps=full",
                )
            )
        refuse(problems)
        return attack, known, {"steps": f"{len(part.plan(known, known.n))} simulated for {training.steps(known.n)}"}
