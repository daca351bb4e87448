"""An attack that gives other numbers is another attack: its revision is raised, and results of before do not count.

`python tests/attacks/test_golden.py` writes what every attack gives now to golden.json.
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from leakscope.attacks import ATTACKS, build_attack
from leakscope.attacks.known import Known
from leakscope.types import stream
from nets import seen_of

GOLDEN = Path(__file__).with_name("golden.json")
TOLERANCE = 1e-4
"""Of a number, relative to the largest of its kind: in double precision processors differ by less."""
SETTINGS: dict[str, dict[str, object]] = {
    "fedleak": {"width": 4, "signed": False},
    "gi-nas": {"width": 16, "candidates": 3, "signed": False},
    "unrolled": {"count": 3},
    "dggi": {"steps": 3},
}
CLIENTS = ("convolutions", "layers", "layer norms", "convolutions behind gaussian:std=1")
"""Those on which attacks take different ways."""
CHAOTIC = {"fedleak": ("layers", "layer norms"), "gi-nas": ("layers", "layer norms")}
"""Deep generators soon take rounding for a reason: a few iterations on clients where they do not, and no signs."""
MORE = {"invert": ("kinks",)}
Numbers = dict[str, list[float]]


def clients(name: str) -> tuple[str, ...]:
    return (*CHAOTIC.get(name, CLIENTS), *MORE.get(name, ()))


def numbers(name: str, where: str, prior: Path | None) -> Numbers:
    """How an attack went, and twelve random views of what it found."""
    net, _, defense = where.partition(" behind ")
    settings = {**SETTINGS.get(name, {}), **({"prior": str(prior)} if ATTACKS[name].auxiliary else {})}
    attack = replace(build_attack(name, settings, matching="auto"), iterations=3 if name in CHAOTIC else 12, history=3)
    with patch.object(Known, "of", partial(Known.of, dtype=torch.float64)):
        found = attack(seen_of(net, defense or "none", dtype=torch.float64), seed=1)
    directions = torch.randn(12, found.images.numel(), generator=stream(0, "golden views"), dtype=torch.float64)
    views = directions @ found.images.flatten()
    course = [row[term] for row in found.history for term in ("objective", "l_sim")]
    return {"course": [round(value, 9) for value in course], "views": [round(float(value), 7) for value in views]}


def moved(now: Numbers, then: Numbers) -> list[str]:
    """The kinds of numbers that are no longer the same."""
    return [
        kind
        for kind, values in then.items()
        if now[kind] != pytest.approx(values, rel=0, abs=TOLERANCE * max(map(abs, values)))
    ]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gives_its_numbers_or_has_another_revision(name, request):
    golden = json.loads(GOLDEN.read_text())[name]
    prior = request.getfixturevalue("prior") if ATTACKS[name].auxiliary else None
    changed = {where: kinds for where in clients(name) if (kinds := moved(numbers(name, where, prior), golden[where]))}
    revision, then = ATTACKS[name].revision, golden["revision"]
    assert not (changed and revision == then), (
        f"the numbers of {name} have changed: {changed}. Where that is meant, raise `revision` of {name!r} in "
        f"leakscope/attacks/__init__.py to {then + 1}, so that results of before are not taken for its own, and write "
        "the new numbers with `python tests/attacks/test_golden.py`. Where it is not, something was broken."
    )
    assert not changed, f"{name} has a new revision: write its numbers with `python tests/attacks/test_golden.py`"
    assert revision == then, f"{name} has a new revision, and gives the numbers of before"


def test_a_change_of_a_part_in_a_thousand_is_noticed():
    golden = json.loads(GOLDEN.read_text())["nl-sme"]["convolutions"]
    assert moved(golden, golden) == []
    assert moved({**golden, "views": [1.001 * value for value in golden["views"]]}, golden) == ["views"]


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    from priors import tiny_prior

    with TemporaryDirectory() as folder:
        made = tiny_prior(Path(folder) / "tiny")
        all_of_them = {
            name: {"revision": info.revision, **{where: numbers(name, where, made) for where in clients(name)}}
            for name, info in ATTACKS.items()
        }
    GOLDEN.write_text(json.dumps(all_of_them, indent=1) + "\n", encoding="utf-8")
