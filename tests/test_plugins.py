"""Attacks, defenses and data of the auditor's own: known to every process of a run, and part of what a result is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from leakscope.audits.audit import run_cells
from leakscope.audits.tune import client_of
from leakscope.cells.request import Request
from leakscope.errors import InputError
from leakscope.paper.grid import clients_of
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
    assert "Unable to serialize" in result.cells[1]["error"]


DATA = """
import numpy as np

from leakscope.data import DATASETS, DatasetInfo, Expected, Form, Samples


def read(paths):
    images = np.load(paths[0])
    return Samples(images, [place % 3 for place in range(len(images))], writers=np.arange(len(images)) // 6)


DATASETS["mine"] = DatasetInfo(
    description="noise",
    model="cnn-mnist",
    forms=(Form("mine/*.npy", read),),
    expected=Expected(by_writer=True),
)
"""


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """A plugin with a data set, and its files under `data`."""
    (tmp_path / "data" / "mine").mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (60, 16, 16), dtype=np.uint8)
    np.save(tmp_path / "data" / "mine" / "a.npy", noise)
    path = tmp_path / "data_of_mine.py"
    path.write_text(DATA)
    return path


def test_a_data_set_of_a_plugin_reaches_the_worker_processes(own_data: Path) -> None:
    root, out = own_data.parent / "data", own_data.parent / "run"
    options = {"n": 2, "epochs": 1, "iterations": 2, "writer": "3", "seed": 3, "attacks": ["ig"]}
    request = Request(**options, dataset="mine", data_root=root, plugins=[str(own_data)])
    result = run_cells(request.cells(), out, request, execute=choose_executor(workers=2))
    told = [(cell.dataset, cell.model, cell.client.writer, cell.status) for cell in result.records]
    assert told == [("mine", "cnn-mnist", "3", "finished")]
    assert result.records[0].metrics["identified"] is not None
    events = [json.loads(line) for path in out.rglob("events.jsonl") for line in path.read_text().splitlines()]
    assert os.getpid() not in {event["worker"] for event in events}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # typer's own, when it is imported
def test_a_data_set_of_a_plugin_is_listed_and_never_in_a_redacted_report(own_data: Path) -> None:
    from leakscope.cli.catalogue import live
    from leakscope.report.redaction import withhold

    (mine,) = (row for row in live([str(own_data)])["datasets"] if row["name"] == "mine")
    assert (mine["model"], mine["clients"], mine["description"]) == ("cnn-mnist", "its writers", "noise")
    assert withhold("leakscope audit --dataset mine --n 4") == "leakscope audit --dataset … --n 4"


def test_writers_of_a_plugin_s_data_set_are_the_clients_of_a_study(own_data: Path) -> None:
    load_plugins([str(own_data)])
    assert client_of("mine", "3") == {"writer": "3", "seed": 3}
    assert clients_of("mine", 2) == [{"seed": 101}, {"seed": 102}]


def test_the_key_follows_the_images_and_the_code_of_a_data_set(own_data: Path) -> None:
    def key() -> str:
        root = own_data.parent / "data"
        return Request(n=2, dataset="mine", data_root=root, plugins=[str(own_data)]).cells()[0].key

    first = key()
    own_data.write_text(DATA.replace("noise", "more noise"))
    second = key()
    np.save(own_data.parent / "data" / "mine" / "a.npy", np.zeros((60, 16, 16), dtype=np.uint8))
    assert len({first, second, key()}) == 3


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        ("return np.load(paths[0])", "the reader of mine gives a ndarray"),
        ("return Samples(np.load(paths[1]), [0])", "the reader of mine fails: IndexError(.*\n)*.*line 8"),
        ("return Samples(np.load(paths[0]) / 255, [0.5])", "images are float64, not uint8(.*\n)*.*labels are float64"),
    ],
)
def test_what_is_wrong_with_a_reader_is_said(own_data: Path, reader: str, words: str) -> None:
    start, end = DATA.index("    images = "), DATA.index("\n\n\nDATASETS")
    own_data.write_text(DATA[:start] + f"    {reader}" + DATA[end:])
    with pytest.raises(InputError, match=words):
        Request(n=2, dataset="mine", data_root=own_data.parent / "data", plugins=[str(own_data)]).cells()


def test_files_of_a_plugin_s_data_set_that_are_not_there_are_named(own_data: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/mine/\*.npy"):
        Request(n=2, dataset="mine", data_root=Path("nowhere"), plugins=[str(own_data)]).cells()


PAGES = ["add-a-defense.md", "add-an-attack.md", "add-a-data-set.md", "add-a-metric.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_that_the_docs_show_is_a_plugin(page: str, tmp_path: Path) -> None:
    """And the command below it is one that leakscope takes."""
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    code = text.split("```python\n")[1].split("```")[0]
    words = next(line for line in text.splitlines() if line.startswith("    leakscope audit")).split()[2:]
    given = list(zip(words[::2], words[1::2], strict=True))
    (name,) = (value for option, value in given if option == "--plugin")
    (tmp_path / name).write_text(code)
    request = Request(
        **{**TINY, "dataset": dict(given).get("--dataset", "photos")},
        attacks=[value for option, value in given if option == "--attack"] or ["sme"],
        settings=[value for option, value in given if option == "--set"],
        defenses=[value for option, value in given if option == "--defense"] or ["none"],
        plugins=[str(tmp_path / name)],
    )
    assert len(request.cells()) >= 2
