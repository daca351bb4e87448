"""The path of a new user, as docs/flower.md tells it: a Flower app without our code, one added line, a report."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (extra `flower`)")

from command_line import succeed
from leakscope import data
from leakscope.integrations.flower_local import run_app

APP = Path(__file__).parents[2] / "examples" / "flower"
PLAIN = "app = ClientApp()"
LINE = 'app = ClientApp(mods=[LeakageRecorder("updates")])'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The example as it was before anybody thought of leakscope."""
    shutil.copytree(APP / "quickstart", tmp_path / "quickstart", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(APP / "pyproject.toml", tmp_path)
    client = tmp_path / "quickstart" / "client_app.py"
    text = client.read_text()
    text = re.sub(r"def private_images.*?\n\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^app = ClientApp\(.*$", PLAIN, text, flags=re.MULTILINE)
    client.write_text(text.replace("from leakscope.integrations.flower import LeakageRecorder\n", ""))
    photos = data.load("photos")
    np.savez(tmp_path / "photos.npz", images=photos.images, labels=photos.labels)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project, **config):
    run_app(project, clients=2, run_config={"num-server-rounds": 2, "local-epochs": 1, **config})


def test_one_line_more_gives_recordings_and_a_report(project):
    app = "\n".join(path.read_text() for path in (project / "quickstart").glob("*.py"))
    assert "leakscope" not in app.lower()
    run(project)
    assert not (project / "updates").exists()

    client = project / "quickstart" / "client_app.py"
    imported = "from leakscope.integrations.flower import LeakageRecorder\n"
    client.write_text(imported + client.read_text().replace(PLAIN, LINE))
    run(project)
    files = sorted((project / "updates").glob("*"))
    assert [path.name for path in files] == [
        f"client-{client}.round-00{number}.update.safetensors" for client in (0, 1) for number in (1, 2)
    ]

    more = ["--model", "quickstart/task.py:Net", "--labels", "recovered", "--iterations", 2, "--out", "runs/flower"]
    succeed("attack", *files[:2], *more)
    succeed("report", "runs/flower")
    cells = json.loads((project / "runs/flower/result.json").read_text())["cells"]
    assert [cell["round"] for cell in cells] == [1, 2]
    assert {cell["client"]["lr"] for cell in cells} == {0.02}
    assert all(cell["metrics"]["l_sim"] is not None for cell in cells)
    assert "round 2" in (project / "runs/flower/index.html").read_text()


def test_the_documentation_shows_these_lines():
    text = (APP.parents[1] / "docs" / "flower.md").read_text()
    assert PLAIN in text
    assert LINE in text
