"""Charts: valid SVG whose points lie inside the frame, on round ticks."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.report.charts import HEIGHT, WIDTH, Axis, Chart, Series, clean, draw, log_ticks, nice_ticks

POINTS = st.lists(st.tuples(st.integers(0, 2000), st.floats(1e-6, 1e6)), min_size=1, max_size=30)


@given(POINTS, st.booleans(), st.none() | st.floats(1e-3, 1e3))
def test_every_point_lies_inside_the_frame(points: list, log: bool, reference: float | None) -> None:
    chart = Chart("T", "iteration", (Series("a", tuple(points)),), log=log, reference=reference)
    root = ElementTree.fromstring(draw(chart))
    line = next(one for one in root if one.tag == "polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert len(places) == len(points)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)


def test_higher_is_higher_up() -> None:
    axis = Axis(0, 10, 200, 10)
    assert axis.place(0) == 200
    assert axis.place(10) == 10
    assert Axis(0.01, 1, 0, 100, log=True).place(0.1) == pytest.approx(50)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_linear_ticks_are_few_and_inside(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@given(st.floats(1e-8, 1e3), st.floats(1.4, 1e4))
def test_logarithmic_ticks_lie_inside(low: float, factor: float) -> None:
    assert all(low <= tick * (1 + 1e-9) and tick <= low * factor * (1 + 1e-9) for tick in log_ticks(low, low * factor))


def test_names_are_escaped() -> None:
    chart = Chart("<b>", "x", (Series("<script>", ((0, 1), (1, 2))),), summary='"&')
    assert "<script>" not in draw(chart)
    ElementTree.fromstring(draw(chart))


def test_clean_leaves_out_what_has_no_place() -> None:
    points = [(0.0, 1.0), (1.0, None), (None, 2.0), (2.0, 0.0), (3.0, -1.0)]
    assert clean(points, log=True) == ((0.0, 1.0),)
    assert clean(points, log=False) == ((0.0, 1.0), (2.0, 0.0), (3.0, -1.0))
    assert math.isfinite(Axis(1, 1.1, 0, 1).place(1.05))


@pytest.mark.parametrize("value", [1e99, -1e99, 5e-324, 0.0, 1e16])
@pytest.mark.parametrize("log", [False, True])
def test_a_single_point_of_any_size_is_drawn(value: float, log: bool) -> None:
    points = clean([(abs(value), value)], log=log)
    if points:
        text = draw(Chart("title", "x", (Series("a", points),), log=log))
        assert "nan" not in text
        assert "inf" not in text
