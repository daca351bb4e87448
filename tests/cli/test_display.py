"""What a person sees while cells run."""

import doctest

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_sparklines_rise_and_fall():
    from leakscope.cli import display

    assert doctest.testmod(display).failed == 0
    assert display.sparkline([]) == ""
    assert display.sparkline([5.0, 5.0]) == "▁▁"
    assert len(display.sparkline(list(range(40)))) == 16


def test_findings_and_their_advice_keep_to_their_column():
    from rich.console import Console

    from leakscope.cli.doctor import Finding, table_of

    console = Console(width=40)
    with console.capture() as captured:
        console.print(table_of([Finding("threads", "note", "2 [waiting], " + "actively " * 4, "export IT=PASSIVE")]))
    first, *more = captured.get().splitlines()
    start = first.index("2 [waiting]")
    assert first.split()[:2] == ["note", "threads"]
    assert all(line[:start].isspace() and not line[start].isspace() for line in more)
    assert more[-1].strip() == "export IT=PASSIVE"
