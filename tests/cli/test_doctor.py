"""The environment check, as a narrow terminal shows it."""

from rich.console import Console


def test_checks_and_their_advice_keep_to_their_column():
    from leakscope.cli.doctor import Check, table_of

    console = Console(width=40)
    with console.capture() as captured:
        console.print(table_of([Check("threads", "note", "2 [waiting], " + "actively " * 4, "export IT=PASSIVE")]))
    first, *more = captured.get().splitlines()
    start = first.index("2 [waiting]")
    assert first.split()[:2] == ["note", "threads"]
    assert all(line[:start].isspace() and not line[start].isspace() for line in more)
    assert more[-1].strip() == "export IT=PASSIVE"
