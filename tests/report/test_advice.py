"""Each recommendation follows from the results, and only from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judged import read
from leakscope.cells.record import Record
from leakscope.report import advice
from leakscope.report.advice import RULES, Advice, advise
from leakscope.report.reading import read_run
from leakscope.verdict.levels import worst_level


def cell(*, hits: int = 45, defense: str = "none", psnr: float = 25.0, **more: Any) -> Record:
    """Fifty images of which `hits` were identified: 45 is high, 0 is none."""
    base = {
        "key": "k",
        "dataset": "photos",
        "model": "cnn",
        "attack": "sme",
        "defense": defense,
        "client": {"n": 50, "seed": 0, "mode": "train"},
        "knowledge": {"labels": "none"},
        "w0": "pretrain:epochs=3",
        "status": "finished",
        "iterations": 1000,
        "metrics": {"psnr": psnr, "identified": hits / 50},
        "baseline": {"psnr": 14.0, "identified": 0.05},
        "per_image": {"identified": [1] * hits + [0] * (50 - hits)},
    }
    return read({**base, **more})


def titles(cells: Sequence[Record]) -> list[str]:
    return [item.title for item in advise(cells)]


def test_an_undefended_leak_is_stopped_and_defenses_are_proposed() -> None:
    found = advice.stop_sending([cell()])
    assert found is not None
    assert "leakage is high" in found.why
    assert advice.stop_sending([cell(hits=0)]) is None
    assert advice.stop_sending([cell(), cell(defense="clip:bound=4")]) is None


def test_the_defense_that_leaks_least_is_preferred_and_its_price_is_said() -> None:
    cheap = cell(hits=0, defense="gaussian:std=0.1", accuracy={"defended": 0.40, "undefended": 0.41})
    dear = cell(hits=0, defense="dpsgd:epsilon=1", accuracy={"defended": 0.10, "undefended": 0.41})
    found = advice.best_defense([cell(), dear, cheap, cell(hits=30, defense="sparsify:rate=0.9")])
    assert found is not None
    assert "gaussian:std=0.1" in found.title
    assert "1.0 points" in found.why


def test_where_no_defense_helps_that_is_said() -> None:
    found = advice.best_defense([cell(), cell(defense="clip:bound=4")])
    assert found is not None
    assert found.title == "None of the defenses tried is enough"


def test_a_single_defense_without_its_undefended_twin_is_not_called_better() -> None:
    assert advice.best_defense([cell(hits=0, defense="dpsgd:epsilon=1")]) is None


def test_clipping_that_changes_nothing_is_called_that() -> None:
    found = advice.clipping_does_nothing([cell(psnr=25.0), cell(psnr=25.1, defense="clip:bound=4")])
    assert found is not None
    assert "25.1 dB with it, 25.0 dB without" in found.why


def test_clipping_that_binds_is_left_alone() -> None:
    assert advice.clipping_does_nothing([cell(psnr=25.0), cell(psnr=19.0, defense="clip:bound=0.1")]) is None


def test_clipping_is_compared_on_the_same_client_only() -> None:
    other = cell(psnr=25.0, client={"n": 50, "seed": 1, "mode": "train"})
    assert advice.clipping_does_nothing([other, cell(psnr=25.0, defense="clip:bound=4")]) is None


@pytest.mark.parametrize(("hits", "said"), [(45, True), (0, False)])
def test_sparsification_is_blamed_only_where_it_leaks(hits: int, said: bool) -> None:
    found = advice.sparsity_still_leaks([cell(hits=hits, defense="sparsify:rate=0.9")])
    assert (found is not None) is said


def test_epsilon_is_shown_and_never_merged() -> None:
    notes = {"dpsgd": {"nominal_epsilon": 10.0, "accounted_epsilon": 12.5, "assumption": "Poisson sampling"}}
    found = advice.epsilon_is_apart([cell(hits=0, defense="dpsgd:epsilon=10", notes=notes)])
    assert found is not None
    assert "epsilon 12.5 accounted, 10 nominal" in found.why
    assert "weak" in found.why
    assert "Poisson sampling" in found.more
    assert "Neither replaces the other" in found.why
    assert advice.epsilon_is_apart([cell()]) is None


def test_a_strong_epsilon_is_not_called_weak_and_no_noise_is_no_guarantee() -> None:
    strong = advice.epsilon_is_apart([cell(notes={"dpsgd": {"nominal_epsilon": 1.0}})])
    assert "weak" not in (strong or Advice("", "weak")).why
    none = advice.epsilon_is_apart([cell(notes={"dpsgd": {"nominal_epsilon": None}})])
    assert "no guarantee" in (none or Advice("", "")).why


def test_clipping_that_does_not_bind_is_told_from_clipping_a_cosine() -> None:
    slack = cell(psnr=25.0, defense="clip:bound=4", notes={"clip": {"norm": 1.0, "binds": False}})
    tight = cell(psnr=25.0, defense="clip:bound=4", notes={"clip": {"norm": 9.0, "binds": True}})
    assert "nothing was clipped" in (advice.clipping_does_nothing([cell(psnr=25.0), slack]) or Advice("", "")).why
    assert "direction" in (advice.clipping_does_nothing([cell(psnr=25.0), tight]) or Advice("", "")).why


def test_an_expensive_defense_is_weighed() -> None:
    dear = cell(hits=0, defense="gaussian:std=0.1", accuracy={"defended": 0.2, "undefended": 0.4})
    assert "20.0 points" in (advice.noise_has_a_price([dear]) or Advice("", "")).why
    assert advice.noise_has_a_price([cell(accuracy={"defended": 0.39, "undefended": 0.4})]) is None


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"client": {"n": 4, "mode": "train"}}, advice.more_images),
        ({"client": {"n": 50, "mode": "eval"}}, advice.upper_bound_mode),
        ({"knowledge": {"labels": "known"}}, advice.labels_assumed),
        ({"w0": "fresh"}, advice.fresh_start),
        ({"status": "interrupted"}, advice.finish_it),
        ({"hits": 0, "iterations": 100}, advice.attack_harder),
        ({"metrics": {"psnr": None}, "per_image": {}}, advice.score_it),
    ],
)
def test_a_rule_speaks_of_its_own_circumstance(change: dict[str, Any], rule: advice.Rule) -> None:
    assert rule([cell(**change)]) is not None
    assert rule([cell(hits=45)]) is None


def test_mixed_updates_are_measured_against_single_ones() -> None:
    found = advice.aggregate([cell(), cell(hits=0, fuse="rho=0.75,clients=4")])
    assert found is not None
    assert "level none" in found.why


def test_nothing_is_ever_called_private_or_safe(matrix_run: Path) -> None:
    for cells in ([cell(hits=0)], [cell()], read_run(matrix_run).cells):
        text = " ".join(item.title + item.why for item in advise(cells)).lower()
        assert "is private" not in text
        assert "safe" not in text


def test_the_whole_matrix_gets_the_expected_advice(matrix_run: Path) -> None:
    found = titles(read_run(matrix_run).cells)
    assert found[0].startswith("Prefer ")
    assert "Do not count on clipping" in found
    assert "Do not count on sparsification" in found
    assert "Keep epsilon and measured leakage apart" in found
    assert len(found) == len(set(found)) <= len(RULES)


def test_no_cells_no_claims() -> None:
    assert titles([]) == ["Score the reconstruction against the truth"]
    assert worst_level([]) == "unknown"
