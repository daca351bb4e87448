"""An attack is a composition of parts: what it is made of, and who may still change that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

from torch import Tensor

from leakscope.attacks.direction import Direction, Gradient
from leakscope.attacks.images import Images, Pixels
from leakscope.attacks.known import Known, Variables
from leakscope.attacks.matching import Cosine, Matching
from leakscope.attacks.priors import Prior, TotalVariation
from leakscope.attacks.surrogate import Linear, Surrogate
from leakscope.attacks.watch import Watch

Choice = Literal["auto", "on", "off"]
State = dict[str, Any]
"""Plain tensors, numbers, strings and containers of them, as a checkpoint holds them."""


@dataclass(frozen=True, kw_only=True)
class HeadStart:
    """What an attack begins with that goes on where another one has ended."""

    images: Tensor
    """(N, C, H, W), normalised."""
    variables: Mapping[str, Tensor] = field(default_factory=dict)
    """Those that both attacks have, by name."""
    l_sim: Tensor | None = None
    """(): how well the images explain the update, without priors."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """The parts of an attack and how long they work; `Attack` in engine.py runs it."""

    name: str
    images: Images = field(default_factory=Pixels)
    start: HeadStart | None = field(default=None, repr=False)
    """Where another attack has brought images and variables already."""
    surrogate: Surrogate = field(default_factory=Linear)
    matching: Matching = field(default_factory=Cosine)
    priors: tuple[Prior, ...] = (TotalVariation(),)
    adaptations: tuple[Adaptation, ...] = ()
    preparation: Preparation | None = None
    renewal: Renewal | None = None
    optimiser: str = "adam"
    direction: Direction = field(default_factory=Gradient)
    schedule: str = "paper"
    iterations: int = 1000
    asked: frozenset[str] = field(default=frozenset(), compare=False)
    """Options that somebody gave a value: what an adaptation would choose by model, it leaves as it is there."""
    history: int = 50
    """A history row every so many iterations."""
    restarts: int = 1
    """Independent starts; the one with the lowest final objective counts."""
    early_stop: float = 0.0
    """Stop once the objective fell by less than this part of itself between two history rows; 0 never stops."""
    chunk: int | None = None
    """How many dummy images go through the net at a time; None: all. It changes memory, time and rounding only."""
    compile: Choice = "auto"
    """Whether the step is compiled; `auto`: where that pays."""
    lockstep: Choice = "auto"
    """Whether restarts are evaluated together; `auto`: on a GPU, which one alone does not fill."""

    def adapt(self, known: Known) -> tuple[Composition, Known, dict[str, object]]:
        """The composition after its adaptations have looked at the observation, with their notes."""
        attack: Composition = self
        notes: dict[str, object] = {}
        for adaptation in self.adaptations:
            attack, known, note = adaptation(attack, known)
            notes.update(note)
        return attack, known, notes


Adapted = tuple[Composition, Known, Mapping[str, object]]


class Adaptation(Protocol):
    """Changes the composition after a look at what was observed, and says why."""

    def __call__(self, attack: Composition, known: Known) -> Adapted: ...


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What preparation found, or has found so far; part of every checkpoint."""

    found: State | None = None
    """What it makes of this is up to `Preparation.compose`."""
    iterations: int = 0
    """How many iterations of the attack it took, if any."""
    seconds: float = 0.0
    rows: tuple[Mapping[str, float], ...] = ()
    """Its part of the history."""
    notes: Mapping[str, object] = field(default_factory=dict)
    finished: bool = True
    state: State | None = None
    """Where to go on, while it is not finished."""

    def pack(self) -> State:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


Keep = Callable[[Callable[[], Prepared]], None]
"""After every piece of work: may take a checkpoint to continue from."""


class Preparation(Protocol):
    """Long work before the first iteration: a search, or another attack to start from. Once for every start.

    Asks `watch.stop()` often, and says whether it got to its end.
    """

    def __call__(
        self, attack: Composition, known: Known, *, seed: int, watch: Watch, before: Prepared | None, keep: Keep
    ) -> Prepared:
        """`before`: what an earlier call had found when it was interrupted."""

    def compose(self, attack: Composition, found: State) -> Composition:
        """The attack with what was found in the parts that use it."""

    def steps(self, iterations: int) -> float:
        """At most how many iterations of the attack it costs, for a plan: the attack makes `iterations` of its own."""


@dataclass(frozen=True)
class Moment:
    """Where the loop is when a renewal is called."""

    progress: float
    """The part of the iterations that is done; 1 is the end."""
    l_sim: Tensor
    """(): how well the images explained the update in the last iteration, without priors."""


@dataclass(frozen=True)
class Renewed:
    """What a renewal has changed."""

    attack: Composition
    """With what it has learned in the parts that use it, and what it has to remember in the renewal itself."""
    moved: Mapping[str, Tensor] = field(default_factory=dict)
    """Variables with new values."""
    seen: Mapping[str, float] = field(default_factory=dict)
    """What the history says about it from now on."""
    finished: bool = False
    """Whether there is nothing left to find; the loop ends then."""


class Renewal(Protocol):
    """Changes an attack between iterations by other means than the gradient, as an adaptation does before them.

    What it learns and remembers are tensors in fields of parts: there a checkpoint finds them.
    """

    @property
    def at(self) -> tuple[float, ...]:
        """When: parts of the iterations."""

    def __call__(self, v: Variables, attack: Composition, known: Known, moment: Moment) -> Renewed: ...
