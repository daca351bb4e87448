"""The wheel, built by pip and installed where nothing else is: all its files are there, and all that it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import ENVIRONMENT

ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
AUDIT = ("--model", "cnn-mnist", "--n", "2", "--epochs", "1", "--attack", "sme", "--iterations", "2")
PLACE = "import leakscope, pathlib; print(pathlib.Path(leakscope.__file__).parent)"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def run(*words: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=CLEAN, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `python` and `leakscope` in a fresh environment with the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("leakscope-*.whl")
    run(sys.executable, "-m", "venv", folder / "fresh", cwd=folder)
    place = folder / "fresh" / ("Scripts" if sys.platform == "win32" else "bin")
    run(place / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return place


def test_it_audits_reports_and_lists(programs: Path, tmp_path: Path) -> None:
    said = run(programs / "leakscope", "audit", *AUDIT, "--out", "run", "--json", cwd=tmp_path)
    assert [cell["status"] for cell in json.loads(said)["cells"]] == ["finished"]
    run(programs / "leakscope", "report", "run", "--redact", cwd=tmp_path)
    assert "Redacted" in (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    rows = json.loads(run(programs / "leakscope", "list", "datasets", "--json", cwd=tmp_path))
    assert {"photos", "cifar100"} <= {row["name"] for row in rows}


def test_every_file_of_the_package_is_in_it(programs: Path, tmp_path: Path) -> None:
    """Templates, scripts, the paper's tables, and the mark of a typed package."""
    installed = files(Path(run(programs / "python", "-c", PLACE, cwd=tmp_path).strip()))
    assert installed == files(ROOT / "src" / "leakscope")
    assert "py.typed" in installed


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
