"""Every example runs as it is shipped, with small settings, and is short enough to read."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from leakscope.attacks import ATTACKS
from leakscope.defenses import DEFENSES

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an example in an empty folder; what it registers is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    for registry in (ATTACKS, DEFENSES):
        for name in ("smooth-sme", "shrink"):
            monkeypatch.delitem(registry, name, raising=False)
    before = dict(ATTACKS), dict(DEFENSES)

    def running(name, folder, *arguments):
        monkeypatch.setattr(sys, "argv", [name, "--quick", *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert (tmp_path / folder / "index.html").is_file()
        return json.loads((tmp_path / folder / "result.json").read_text())["cells"]

    yield running
    for registry, old in zip((ATTACKS, DEFENSES), before, strict=True):
        for name in registry.keys() - old.keys():
            del registry[name]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 80


def test_audit_my_model(run):
    (cell,) = run("audit_my_model.py", "runs/my-model")
    assert (cell["client"]["n"], cell["client"]["mode"], cell["client"]["epochs"]) == (8, "train", 5)


def test_compare_defenses(run):
    cells = run("compare_defenses.py", "runs/defenses")
    assert [cell["defense"] for cell in cells] == ["none", "clip:bound=0.1"]
    assert all(0 <= cell["accuracy"]["defended"] <= 1 for cell in cells)


def test_add_a_defense_that_cosine_matching_does_not_notice(run):
    plain, shrunk, _ = run("add_a_defense.py", "runs/shrink")
    assert shrunk["defense"] == "shrink:factor=0.1"
    assert shrunk["metrics"]["psnr"] == pytest.approx(plain["metrics"]["psnr"], abs=0.5)


def test_add_an_attack(run):
    ours, theirs = run("add_an_attack.py", "runs/smooth-sme")
    assert (theirs["attack"], theirs["settings"]) == ("smooth-sme", {"tv": 0.1})
    assert ours["metrics"]["psnr"] != theirs["metrics"]["psnr"]


def test_opacus_shows_epsilon_beside_the_leakage(run):
    pytest.importorskip("opacus", reason="Opacus is not installed (extra `dp`)")
    weak, strong = run("opacus_client.py", "runs/opacus/run")
    assert weak["notes"]["dpsgd"]["accounted_epsilon"] > strong["notes"]["dpsgd"]["accounted_epsilon"] > 0
    assert strong["defense"] == "dpsgd:sigma=1,poisson=on"
    assert "accounted" in Path("runs/opacus/run/index.html").read_text()


def test_flower(run, tmp_path):
    pytest.importorskip("flwr", reason="Flower is not installed (extra `flower`)")
    cells = run("flower/run.py", "run", "--updates", tmp_path / "updates", "--out", tmp_path / "run")
    assert [(cell["client"]["id"], cell["round"]) for cell in cells] == [("0", 1), ("1", 1)]
    assert all(cell["metrics"]["identified"] is not None for cell in cells)


@pytest.mark.long
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((EXAMPLES / "see_a_leak.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cells[0] = cells[0].replace('"iterations": 150', '"iterations": 3')
    seen: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "see_a_leak.ipynb", "exec"), seen)
    assert "data:image/png;base64," in seen["result"]._repr_html_()
    assert capsys.readouterr().out.count("knowing nothing") == 4
    assert not any(cell.get("outputs") for cell in notebook["cells"])
