"""`leakscope reproduce` as a person uses it, on drawn data in the paper's layout."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from command_line import ENVIRONMENT, command, leakscope, workers_of
from leakscope.paper.reproduce import begin, carry_out, lay_out
from leakscope.paper.results import read_results, same
from leakscope.runs.local import run_here
from leakscope.runs.places import Places
from synthetic import write_cifar


def words(root: Path, out: Path, *options: str) -> tuple[object, ...]:
    return ("reproduce", "table6", "--data-root", root, "--out", out, *options)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_cifar(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(root, tmp_path_factory):
    """Table 6 in small, in this process."""
    out = tmp_path_factory.mktemp("reproduce") / "run"
    job = lay_out("table6", quick=True, places=Places(root))
    run, todo = begin(job, out, results=Path("nowhere"), command="test")
    assert len(todo) == 4
    return out, carry_out(job, run, todo, execute=run_here, command="test")


def numbers(result) -> list[tuple[str, float | None]]:
    return [(line["setting"], line["measured"]) for target in result["targets"] for line in target["lines"]]


def test_a_table_shows_reported_measured_and_difference(undisturbed):
    out, done = undisturbed
    assert done.complete
    result = json.loads((out / "reproduce.json").read_text())
    assert result == done.result
    (table,) = result["targets"]
    first = table["lines"][0]
    assert (first["setting"], first["reported"]) == ("CIFAR-100, lambda_p = 0", 21.1805)
    assert first["clients"] == 1
    assert first["difference"] == pytest.approx(first["measured"] - 21.1805)
    assert len({value for _, value in numbers(result)}) > 1, "lambda_p reaches the attack"
    text = (out / "reproduce.html").read_text()
    assert "21.18 ± 0.23" in text
    assert text.count("quick") > 2, "a scaled-down table is marked as one"


def test_what_was_run_can_be_taken_over_where_key_and_settings_agree(undisturbed, root, tmp_path):
    out, done = undisturbed
    rows = read_results_of(out, tmp_path / "results")
    job = lay_out("table6", quick=True, places=Places(root))
    assert all(same(row, cell) for row, cell in zip(rows, job.cells, strict=True))
    changed = {**rows[0], "parameters": {**rows[0]["parameters"], "tv": 99.0}}
    assert not same(changed, job.cells[0]), "a default that changed since makes another result"
    assert not same(rows[0], job.cells[1])
    full = lay_out("table6", places=Places(root), clients=1)
    _, todo = begin(full, tmp_path / "full", results=tmp_path / "results", command="test")
    assert len(todo) == 4, "quick cells are no answer to the paper's"
    again = job.__class__(job.targets, job.planned, False, job.places)
    run, todo = begin(again, tmp_path / "again", results=tmp_path / "results", command="test")
    assert todo == []
    taken = carry_out(again, run, todo, execute=run_here, command="test")
    assert numbers(taken.result) == numbers(done.result)
    assert json.loads((tmp_path / "again" / "results.json").read_text())["cells"] == [], "nothing was run here"


def read_results_of(out: Path, folder: Path) -> list[dict]:
    folder.mkdir()
    (folder / "table6.json").write_text((out / "results.json").read_text())
    return read_results(folder)


def test_figures_are_drawn_from_what_was_measured(undisturbed, root, tmp_path):
    del undisturbed
    job = lay_out("figure6", quick=True, places=Places(root))
    run, todo = begin(job, tmp_path / "run", results=Path("nowhere"), command="test")
    assert todo == []
    assert len(job.traces) == 6, "CIFAR-100 alone: there is no FEMNIST in this data root"
    done = carry_out(job, run, todo, execute=run_here, command="test")
    lines = done.result["targets"][0]["lines"]
    assert [line["measured"] is None for line in lines] == [True] * 6 + [False] * 6
    assert all("femnist" in line["reason"] for line in lines[:6])
    measured = [line["measured"] for line in lines[6:]]
    assert measured == sorted(measured), "the distance grows with the number of steps"
    assert {path.name for path in (tmp_path / "run" / "figures").iterdir()} == {"figure6.svg", "figure6.png"}


def test_some_attacks_of_a_table_alone(root):
    job = lay_out("table2", attacks=("sme", "nl-sme"), quick=True, places=Places(root))
    assert [cell.attack.attack for cell in job.cells] == ["sme", "nl-sme"]
    everything = lay_out("table2", quick=True, places=Places(root))
    assert {cell.key for cell in job.cells} < {cell.key for cell in everything.cells}


def test_without_the_data_cells_are_null_with_the_reason(tmp_path):
    options = ("table2", "--quick", "--json", "--data-root", tmp_path / "empty", "--out", tmp_path / "run")
    done = leakscope("reproduce", *options)
    assert done.returncode == 2, done.stderr
    lines = json.loads(done.stdout)["targets"][0]["lines"]
    assert all(line["measured"] is None for line in lines)
    assert all("is not there" in line["reason"] or "not in this installation" in line["reason"] for line in lines)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "killed", [("1",), pytest.param(("2", "1", "1"), marks=pytest.mark.long)], ids=["once", "three times"]
)
def test_killed_it_ends_with_the_same_numbers(undisturbed, root, tmp_path, killed):
    """With one worker or two, at any moment."""
    _, whole = undisturbed
    out, seen = tmp_path / "run", set()
    for workers in killed:
        process = subprocess.Popen(
            command(*words(root, out, "--quick", "--workers", workers)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        wait_for(lambda before=frozenset(seen): workers_of(out) - before, process)
        time.sleep(random.uniform(0, 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen |= workers_of(out)
    wait_for(lambda: not any(map(is_alive, seen)))
    last = leakscope(*words(root, out, "--quick", "--json"))
    assert last.returncode == 0, last.stderr
    assert numbers(json.loads(last.stdout)) == numbers(whole.result)
    assert not [path for path in out.rglob(".*") if path.is_file()], "nothing half-written is left"


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition, process: subprocess.Popen | None = None) -> None:
    """Until it holds, or the process has ended."""
    for _ in range(2400):
        if condition() or (process is not None and process.poll() is not None):
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
