"""What a person sees while cells run."""

from leakscope.runs import display


def test_sparklines_rise_and_fall():
    assert display.sparkline([]) == ""
    assert display.sparkline([5.0, 5.0]) == "▁▁"
    assert len(display.sparkline(list(range(40)))) == 16
