"""Attacks and defenses of the auditor's own: known to every process of a run, and part of what a result is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.audits.audit import run_cells
from leakscope.cells.request import Request
from leakscope.errors import InputError
from leakscope.plugins import REGISTRIES, load_plugins, plugins_fingerprint
from leakscope.runs.executors import choose_executor
from own_code import PLUGIN as CODE

TINY = {"model": "cnn-mnist", "n": 2, "epochs": 1, "iterations": 2}


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    before = {name: dict(registry) for name, registry in REGISTRIES.items()}
    yield
    for name, registry in REGISTRIES.items():
        registry.clear()
        registry.update(before[name])


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_the_key_follows_the_code_of_a_plugin_and_not_its_place(plugin: Path) -> None:
    def key(*places: Path) -> str:
        return Request(**TINY, attacks=["sme"], plugins=[str(place) for place in places]).cells()[0].key

    without, first = key(), key(plugin)
    moved = plugin.with_name("moved.py")
    moved.write_text(CODE)
    assert key(moved) == first != without
    plugin.write_text(CODE.replace("0.5", "0.6"))
    assert key(plugin) not in (first, without)


def test_a_plugin_that_changed_since_the_plan_is_refused(plugin: Path) -> None:
    request = Request(**TINY, attacks=["sme"], plugins=[str(plugin)])
    cells = request.cells()
    plugin.write_text(CODE + "\n# another one\n")
    with pytest.raises(InputError, match="a plugin is not what this run was planned with"):
        run_cells(cells, plugin.parent / "run", request, execute=choose_executor(workers=1))


def test_an_edited_plugin_counts_in_the_same_process(plugin: Path) -> None:
    load_plugins([str(plugin)])
    before = plugins_fingerprint([str(plugin)])
    plugin.write_text(CODE.replace('DEFENSES["shrink"]', 'DEFENSES["shrink-more"]'))
    load_plugins([str(plugin)])
    assert {"shrink", "shrink-more"} <= REGISTRIES["DEFENSES"].keys()
    assert plugins_fingerprint([str(plugin)]) != before


def test_a_plugin_cannot_replace_what_leakscope_has(plugin: Path) -> None:
    ours = REGISTRIES["ATTACKS"]["sme"]
    plugin.write_text(CODE.replace('ATTACKS["plain"]', 'ATTACKS["sme"]'))
    with pytest.raises(InputError, match="replaces ATTACKS\\['sme'\\]"):
        load_plugins([str(plugin)])
    assert REGISTRIES["ATTACKS"]["sme"] is ours


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\n", "registers nothing"),
        ("import leakscope\n\nleakscope.nothing\n", "line 3: leakscope.nothing"),
        ("def half(:\n", "SyntaxError.*\n.*\n.*line 1"),
        (None, "there is no file"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(plugin: Path, code: str | None, words: str) -> None:
    if code is None:
        plugin.unlink()
    else:
        plugin.write_text(code)
    with pytest.raises(InputError, match=words):
        Request(**TINY, plugins=[str(plugin)]).cells()


def test_all_problems_of_all_plugins_are_told_at_once(plugin: Path) -> None:
    plugin.write_text("x = 1\n")
    with pytest.raises(InputError) as refused:
        Request(**TINY, attacks=["snme"], plugins=[str(plugin), "no.such.module"]).cells()
    found = [problem.found for problem in refused.value.problems]
    assert [text.split("'")[0].split("/")[0].strip() for text in found] == [
        "the plugin",
        "cannot import",
        "unknown attack",
    ]


def test_two_plugins_may_have_the_same_file_name(plugin: Path) -> None:
    other = plugin.parent / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(CODE.replace('"shrink"', '"shrink-more"').replace('"plain"', '"plainer"'))
    (cell,) = Request(**TINY, attacks=["plain"], plugins=[str(plugin), str(other)], settings=[]).cells()
    assert cell.attack.attack == "plain"
    assert {"shrink", "shrink-more"} <= REGISTRIES["DEFENSES"].keys()


def test_a_note_that_no_file_can_hold_fails_its_cell_alone(plugin: Path) -> None:
    noted = CODE.replace(
        "for name, value in update.delta.items()})", 'for name, value in update.delta.items()}, notes={"x": object()})'
    )
    plugin.write_text(noted)
    request = Request(**TINY, attacks=["sme"], defenses=["none", "shrink"], plugins=[str(plugin)])
    result = run_cells(request.cells(), plugin.parent / "run", request, execute=choose_executor(workers=1))
    assert [cell["status"] for cell in result.cells] == ["finished", "failed"]
    assert "not JSON serializable" in result.cells[1]["error"]


@pytest.mark.parametrize("page", ["add-a-defense.md", "add-an-attack.md"])
def test_the_code_that_the_docs_show_is_a_plugin(page: str, tmp_path: Path) -> None:
    """And the command below it is one that leakscope takes."""
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    code = text.split("```python\n")[1].split("```")[0]
    words = next(line for line in text.splitlines() if line.startswith("    leakscope audit")).split()[2:]
    given = list(zip(words[::2], words[1::2], strict=True))
    (name,) = (value for option, value in given if option == "--plugin")
    (tmp_path / name).write_text(code)
    request = Request(
        **{**TINY, "attacks": [value for option, value in given if option == "--attack"] or ["sme"]},
        settings=[value for option, value in given if option == "--set"],
        defenses=[value for option, value in given if option == "--defense"] or ["none"],
        plugins=[str(tmp_path / name)],
    )
    assert len(request.cells()) >= 2
