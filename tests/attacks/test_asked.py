"""What somebody asked for stays: no adaptation puts another value in its place, and no fallback."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
import torch

from leakscope.attacks import ATTACKS, build_attack
from leakscope.attacks.composition import Composition
from leakscope.attacks.diffusion.guidance import DiffusionProjected
from leakscope.attacks.few_steps import InFewSteps
from leakscope.attacks.fitting import Fit
from leakscope.attacks.images import Pixels
from leakscope.attacks.known import Known
from leakscope.attacks.priors import TotalVariation
from leakscope.attacks.span import SpanImages
from leakscope.attacks.surrogate import Bezier
from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from leakscope.cells.run import compose
from nets import NETS, seen_of

UPDATES = list(product(NETS, ("none", "sparsify:rate=0.9", "gaussian:std=1")))
"""All that an adaptation looks at: the kind of layers; a span that is exact, believed or gone; zeros; noise."""


@lru_cache
def known_of(net: str, defense: str) -> Known:
    return Known.of(seen_of(net, defense), torch.device("cpu"))


def pixel_rate(attack: Composition) -> float | None:
    return attack.images.lr if isinstance(attack.images, Pixels) else None


def of_the_path(name: str) -> Callable[[Composition], object]:
    def look(attack: Composition) -> object:
        assert isinstance(attack.surrogate, Bezier)
        return getattr(attack.surrogate, name)

    return look


WHERE: dict[str, tuple[object, Callable[[Composition], object]]] = {
    "lr": (0.37, pixel_rate),
    "lr_z": (0.37, lambda attack: attack.images.lr if isinstance(attack.images, SpanImages) else None),
    "tv": (0.37, lambda attack: sum(p.weight for p in attack.priors if isinstance(p, TotalVariation))),
    "lambda_p": (0.37, of_the_path("lambda_p")),
    "lr_p": (0.37, of_the_path("lr_p")),
    "trajectory": (True, lambda attack: isinstance(attack.surrogate, Bezier)),
    "schedule": ("cosine", lambda attack: attack.schedule),
    "optimiser": ("adam", lambda attack: attack.optimiser),
    "iterations": (300, lambda attack: attack.iterations),
}
"""A value to ask for, and where it counts: None where the attack has nothing left that it could stand for."""
LOOKS = (InFewSteps(), Fit(memory="low"))
MADE = {"unrolled": {"count": 2}, "gi-nas": {"candidates": 2}}


def adapted(attack: Composition, known: Known) -> Composition:
    return replace(attack, adaptations=(*attack.adaptations, *LOOKS)).adapt(known)[0]


OPTIONS = [(name, option) for name, info in ATTACKS.items() for option in sorted({*info.by_model} & {*WHERE})]


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda value: value)
def test_what_was_asked_is_what_runs(name, option, request):
    value, look = WHERE[option]
    settings = {**MADE.get(name, {}), **({} if option == "iterations" else {option: value})}
    if ATTACKS[name].auxiliary:
        settings |= {"prior": str(request.getfixturevalue("prior")), "share": 0.0 if option == "lr" else 0.6}
    for mode in ({"mode": "interleaved"}, {"mode": "dps"}) if name == "dggi" else ({},):
        for update in UPDATES:
            attack = build_attack(name, {**settings, **mode}, matching="auto")
            if option == "iterations":
                attack = replace(attack, iterations=value, asked=attack.asked | {"iterations"})
            after = adapted(attack, known_of(*update))
            found = look(after)
            elsewhere = (SpanImages if option == "lr" else Pixels, DiffusionProjected)
            assert found == value or (found is None and isinstance(after.images, elsewhere)), (update, mode)


@pytest.mark.parametrize("update", UPDATES, ids=str)
@pytest.mark.parametrize("name", [name for name in ATTACKS if not ATTACKS[name].auxiliary])
def test_a_schedule_for_all_attacks_is_the_one_that_runs(name, update):
    for schedule in ("constant", "fast", "paper"):
        attack = build_attack(name, MADE.get(name, {}), matching="auto", schedule=schedule)
        assert adapted(attack, known_of(*update)).schedule == schedule


def test_a_schedule_counts_in_both_parts_of_an_attack_that_goes_on_from_itself(prior):
    for mode in ("interleaved", "dps"):
        attack = build_attack("dggi", {"prior": str(prior), "mode": mode}, schedule="paper")
        after = adapted(attack, known_of("layer norms", "none"))
        assert (after.preparation.attack.schedule, after.schedule) == ("paper", "paper")


def test_only_what_was_not_asked_is_chosen_by_model():
    vit = known_of("layer norms", "none")
    usual, rate, decay = (adapted(build_attack("sme", s), vit) for s in ({}, {"lr": 2.0}, {"schedule": "paper"}))
    assert (usual.images.lr, usual.schedule) == (0.1, "constant")
    assert (rate.images.lr, rate.schedule) == (2.0, "constant")
    assert (decay.images.lr, decay.schedule) == (0.1, "paper")


def test_the_length_of_an_attack_that_falls_back_is_its_own_unless_somebody_counted():
    noisy = known_of("convolutions", "gaussian:std=1")

    def length(**asked: object) -> int:
        (cell,) = grid(Request(attacks=("span-sme",), **asked), "photos", "")
        return compose(cell).adapt(noisy)[0].iterations

    assert length() == 1000
    assert length(schedule="fast") == 500
    assert [length(iterations=count) for count in (40, 300, 1000)] == [40, 300, 1000]


def test_to_ask_for_what_depends_on_the_model_makes_another_cell():
    def key(*settings: str, **asked: object) -> str:
        (cell,) = grid(Request(attacks=("span-sme",), settings=settings, **asked), "photos", "")
        return cell.key

    usual = key()
    assert key("span-sme.margin=0.3") == usual, "no model changes the margin"
    assert key("span-sme.tv=0.006") != usual
    assert key(iterations=300) != usual


def test_copies_stay_copies_on_transformers():
    attack = build_attack("unrolled", {"copies": True, "count": 2})
    after = adapted(attack, known_of("layer norms", "none"))
    assert type(after.images) is type(attack.images)
    assert after.images.lr == 0.1
