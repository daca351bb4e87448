"""Recorded rounds from the command line: looked at, attacked one by one and together; and the workflow in the docs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import leakscope
from leakscope.cells.recorded import different_clients
from leakscope.cli import verb
from leakscope.client.training import train
from leakscope.observation.update_file import RecordedUpdate, write_truth, write_update
from small import small_client

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of one client, with its truth; and a file of another client."""
    folder = tmp_path_factory.mktemp("recorded")
    client = small_client(n=6, batch_size=3)
    w = client.victim.weights()
    for turn in (1, 2, 3):
        batch = small_client(n=6, seed=7).batch if turn == 3 else client.batch
        update = train(replace(client, batch=batch), w)
        made = RecordedUpdate(
            update=update,
            model="cnn-mnist",
            shape=client.victim.shape,
            classes=5,
            normalisation=batch.normalisation,
            labels=batch.labels.sort().values,
            defense="none",
            producer="a test",
            round=turn,
            client="b" if turn == 3 else "a",
        )
        write_update(folder / f"{turn}.update.safetensors", made)
        w = {name: value - update.delta[name] for name, value in w.items()}
    images, labels = client.batch.images, client.batch.labels
    candidates = small_client(n=9, seed=1).batch.images
    write_truth(folder / "a.truth.safetensors", images=images, labels=labels, candidates=candidates, dataset="small")
    return folder


FILES = ("1.update.safetensors", "2.update.safetensors")


def test_rounds_are_attacked_one_by_one_and_together(recorded: Path) -> None:
    options = ("--truth", "a.truth.safetensors", "--attack", "sme", "--iterations", "3", "--out", "run", "--json")
    done = leakscope("attack", *FILES, "--combine", *options, cwd=recorded)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [(cell["round"], cell["combined"]) for cell in cells] == [(1, 1), (2, 1), (None, 2)]
    assert len({cell["key"] for cell in cells}) == 3
    page = (recorded / "run" / "index.html").read_text(encoding="utf-8")
    assert "Worst round" in page
    assert "2 rounds together" in page


def test_check_attacks_nothing(recorded: Path) -> None:
    (recorded / "cut.update.safetensors").write_bytes((recorded / FILES[0]).read_bytes()[:-99])
    broken = leakscope("attack", FILES[0], "cut.update.safetensors", "--check", "--json", cwd=recorded)
    assert broken.returncode == 2
    assert "2 files looked at: 1 errors, 0 warnings" in broken.stderr
    (finding,) = json.loads(broken.stdout)
    assert (finding["file"], finding["severity"]) == ("cut.update.safetensors", "error")
    assert "is cut off" in finding["found"]


def test_rounds_of_different_clients_are_not_combined(recorded: Path) -> None:
    same = [recorded / name for name in FILES]
    assert list(different_clients(same)) == []
    (problem,) = different_clients([*same, recorded / "3.update.safetensors"])
    assert problem.found == "3.update.safetensors has another client than 1.update.safetensors"


def test_the_workflow_in_the_docs_uses_commands_that_exist() -> None:
    """Every `leakscope` line names a verb and options that it has."""
    lines = re.findall(r"run: leakscope (.+)", (ROOT / "docs" / "ci" / "leakscope.yml").read_text(encoding="utf-8"))
    assert [line.split()[0] for line in lines] == ["audit", "gate", "report"]
    for line in lines:
        name, *words = line.split()
        known = {option for parameter in verb(name).params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
