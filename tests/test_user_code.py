"""Code of the auditor's own: what goes wrong in it is said with its line, and what it is counts in the key."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from leakscope.cells.request import Request
from leakscope.cells.run import run_cell
from leakscope.client.own import load_client
from leakscope.errors import InputError
from leakscope.user_code import import_code
from leakscope.victims import build_victim

NET = """
import math

import torch


def act(x):
    return torch.relu(x)


class Net(torch.nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.out = torch.nn.Linear(math.prod(shape), classes)

    def forward(self, x):
        return self.out(act(x.flatten(1)))
"""
TINY = {"n": 2, "epochs": 1, "iterations": 2, "attacks": ["sme"]}


def net(path: Path, code: str = NET) -> str:
    path.write_text(code)
    return f"{path}:Net"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import torch\n\nclient = torch.nothing\n", "line 3: client = torch.nothing"),
        ("def client():\n    return 1 / 0\n", "line 2: return 1 / 0"),
        ("client = (\n", "SyntaxError"),
        ("import no_such_package\n", "line 1: import no_such_package"),
    ],
)
def test_errors_in_a_client_file_name_their_line(tmp_path: Path, code: str, words: str) -> None:
    path = tmp_path / "broken_client.py"
    path.write_text(code)
    with pytest.raises(InputError, match=words):
        load_client(f"{path}:client")


def test_errors_in_a_model_name_their_line(tmp_path: Path) -> None:
    wrong = net(tmp_path / "wrong.py", NET.replace("math.prod(shape)", "math.product(shape)"))
    with pytest.raises(InputError, match=r"line 14: self\.out"):
        build_victim(wrong, shape=(1, 8, 8), classes=3)
    lost = net(tmp_path / "lost.py", NET.replace("self.out(act", "self.oout(act"))
    with pytest.raises(InputError, match="has no attribute 'oout'"):
        build_victim(lost, shape=(1, 8, 8), classes=3)


def test_a_dotted_name_is_imported_as_python_does() -> None:
    assert import_code("leakscope.types").__name__ == "leakscope.types"
    with pytest.raises(InputError, match=r"cannot import 'leakscope\.no_such'"):
        import_code("leakscope.no_such")


def test_the_key_follows_the_code_of_a_model(tmp_path: Path) -> None:
    """Not only its layers: a function that they call counts, too."""

    def key(model: str) -> str:
        return Request(model=model, **TINY).cells()[0].key

    first = key(net(tmp_path / "net.py"))
    assert key(net(tmp_path / "net.py")) == first
    assert key(net(tmp_path / "net.py", NET.replace("relu", "tanh"))) != first


def test_a_model_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    (cell,) = Request(model=net(tmp_path / "net.py"), **TINY).cells()
    net(tmp_path / "net.py", NET.replace("relu", "tanh"))
    with pytest.raises(InputError, match="not what this run was planned with"):
        run_cell(cell)


def test_the_key_follows_the_weights_that_w0_names(tmp_path: Path) -> None:
    """By content: the same file elsewhere is the same cell, another one under the same name is another cell."""
    victim = build_victim("cnn-cifar", shape=(3, 32, 32), classes=9)

    def key(path: Path, scale: float) -> str:
        save_file({name: scale * value for name, value in victim.weights().items()}, path)
        return Request(w0=str(path), **TINY).cells()[0].key

    first = key(tmp_path / "w0.safetensors", 1.0)
    assert key(tmp_path / "copy.safetensors", 1.0) == first
    assert key(tmp_path / "w0.safetensors", 0.5) != first


def test_weights_that_changed_since_the_plan_are_refused(tmp_path: Path) -> None:
    path, victim = tmp_path / "w0.safetensors", build_victim("cnn-cifar", shape=(3, 32, 32), classes=9)
    save_file(victim.weights(), path)
    (cell,) = Request(w0=str(path), **TINY).cells()
    save_file({name: torch.zeros_like(value) for name, value in victim.weights().items()}, path)
    with pytest.raises(InputError, match="not what this run was planned with"):
        run_cell(cell)


def test_a_missing_w0_is_told_with_all_other_problems() -> None:
    with pytest.raises(InputError) as refused:
        Request(w0="nowhere.safetensors", **{**TINY, "n": 0}).cells()
    assert [problem.found.split()[0] for problem in refused.value.problems] == ["--n", "cannot"]


def test_a_file_draws_the_same_numbers_whenever_it_is_imported(tmp_path: Path) -> None:
    """Every process imports it again, and must find the same client; whoever imports it keeps their own numbers."""
    path = tmp_path / "drawn.py"
    path.write_text(
        "import random, numpy, torch\nseen = [random.random(), numpy.random.rand(), torch.rand(1).item()]\n"
    )
    torch.manual_seed(5)
    first, _ = import_code(str(path)).seen, torch.rand(3)
    assert import_code(str(path)).seen == first
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    import_code(str(path))
    assert torch.equal(torch.rand(1), expected)


def test_what_it_prints_is_not_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('imported')\n" + NET.replace("return self.out", "print('called'); return self.out")
    build_victim(net(tmp_path / "loud.py", code), shape=(1, 8, 8), classes=3)
    said = capsys.readouterr()
    assert said.out == ""
    assert "imported" in said.err
    assert "called" in said.err


def test_the_client_that_the_docs_show_is_the_same_every_time(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "docs" / "own-client.md").read_text()
    path = tmp_path / "client.py"
    path.write_text(text.split("```python\n")[1].split("```")[0])
    assert load_client(f"{path}:client").fingerprint == load_client(f"{path}:client").fingerprint


def test_a_module_without_a_file_is_explained() -> None:
    with pytest.raises(InputError, match="no file of that module"):
        import_code("sys")


def test_a_cell_finds_its_files_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net(tmp_path / "net.py")
    (cell,) = Request(model="net.py:Net", **TINY).cells()
    there = cell.with_absolute_paths()
    assert (there.client.model, there.key) == (f"{tmp_path}/net.py:Net", cell.key)
    monkeypatch.chdir("/")
    assert run_cell(there).record.status == "finished"
