"""The level of a run: thresholds, worst image, worst cell, and what is never said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judged import cell, read
from leakscope.verdict import levels
from leakscope.verdict.levels import LEVELS, NOT_PRIVATE, Shown, Verdict, severity


def find(one: dict) -> Shown:
    return levels.find(read(one))


def judge(cells: list[dict]) -> Verdict:
    return levels.judge([read(one) for one in cells])


@pytest.mark.parametrize(
    ("hits", "level"),
    [
        (0, "none"),
        (2, "none"),
        (5, "low"),
        (19, "low"),
        (20, "medium"),
        (32, "medium"),
        (33, "high"),
        (50, "high"),
    ],
)
def test_share_identified_sets_the_level_by_its_lower_bound(hits: int, level: str) -> None:
    assert find(cell(hits=hits)).level == level


@pytest.mark.parametrize(
    ("relative", "level"),
    [
        (-0.5, "none"),
        (0.19, "none"),
        (0.21, "low"),
        (0.39, "low"),
        (0.41, "medium"),
        (0.59, "medium"),
        (0.61, "high"),
    ],
)
def test_one_image_rebuilt_is_enough(relative: float, level: str) -> None:
    leak = cell(hits=1, n=200)
    leak["per_image"]["ssim"][0] = 0.2 + relative * 0.8
    assert find(leak).level == level
    assert find(leak).relative == pytest.approx(relative)


def test_a_lucky_image_that_is_not_identified_does_not_count() -> None:
    lucky = cell(hits=0)
    lucky["per_image"]["ssim"][7] = 0.95
    assert find(lucky).level == "none"


def test_without_identification_every_image_counts() -> None:
    leak = cell()
    leak["metrics"]["identified"] = None
    leak["per_image"] = {"ssim": [0.1, 0.9]}
    assert find(leak).level == "high"
    assert "relative score" in judge([leak]).sentence


def test_recorded_relative_scores_are_taken_as_they_are() -> None:
    easy = cell(hits=1, n=2)
    easy["per_image"] = {"identified": [1, 0], "ssim": [0.9, 0.1], "relative_ssim": [0.0, 0.1]}
    assert levels.relative_scores(read(easy)) == pytest.approx([0.0, 0.1])
    assert find(easy).relative == 0.0


def test_the_share_counts_beyond_chance() -> None:
    """Half of a hundred images is much against a chance of 1 %, and little against one of 33 %."""
    assert find(cell(hits=50, n=100, chance=0.01)).level == "medium"
    assert find(cell(hits=50, n=100, chance=0.33)).level == "low"
    assert find(cell(hits=40, n=100, chance=0.33)).level == "none"


@pytest.mark.parametrize("n", [1, 5, 14, 28, 31])
def test_nobody_identified_is_none_where_the_guess_is_not_known(n: int) -> None:
    blind = {**cell(n=n), "baseline": {}}
    assert find(blind).interval[0] == 0
    assert find(blind).level == "none"


def test_an_undetectable_gain_over_chance_is_none() -> None:
    assert find(cell(hits=5, chance=0.1)).level == "none"


def test_worst_cell_speaks_for_the_run() -> None:
    verdict = judge([cell(hits=1, key="mild"), cell(hits=48, key="bad"), cell(hits=10, key="middle")])
    assert (verdict.level, verdict.worst_key) == ("high", "bad")
    assert "48 of 50" in verdict.sentence
    assert "undefended" in verdict.sentence


def test_no_success_is_never_called_private() -> None:
    verdict = judge([cell()])
    assert verdict.level == "none"
    assert NOT_PRIVATE in verdict.sentence


@pytest.mark.parametrize(
    "blind",
    [[], [cell(status="failed")], [{**cell(), "metrics": {"psnr": None, "l_sim": 0.1}, "per_image": {}}]],
)
def test_nothing_scored_is_unknown_not_none(blind: list[dict]) -> None:
    assert judge(blind).level == "unknown"
    assert judge(blind).worst_key is None


def test_caveats_are_said() -> None:
    verdict = judge([cell(hits=48), cell(status="failed"), cell(status="interrupted")])
    assert any("1 of 3 cells failed" in reason for reason in verdict.reasons)
    assert any("longer attack" in reason for reason in verdict.reasons)


def test_not_a_number_is_no_evidence() -> None:
    broken = cell(hits=50)
    broken["per_image"]["ssim"] = [float("nan")] * 50
    assert find(broken).relative is None
    assert find(broken).level == "high"


@given(st.integers(1, 300), st.data())
def test_more_identified_is_never_milder(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n - 1))
    assert severity(find(cell(hits=hits, n=n)).level) <= severity(find(cell(hits=hits + 1, n=n)).level)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_the_run_is_as_bad_as_its_worst_cell(counts: list[int]) -> None:
    cells = [cell(hits=hits, key=str(place)) for place, hits in enumerate(counts)]
    assert judge(cells).level == max((find(c).level for c in cells), key=LEVELS.index)
