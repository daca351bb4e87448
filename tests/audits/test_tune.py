"""`tune`: a tiny study on real cells."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="Optuna is not installed (extra `tune`)")

from leakscope.audits.tune import Range, Study, defaults_within, tune
from leakscope.cells.request import Request
from leakscope.errors import InputError
from leakscope.runs.local import run_here

TINY = Request(model="cnn-mnist", n=1, epochs=1, iterations=2, history=2)


def study(**changes: object) -> Study:
    facts = {
        "attack": "nl-sme",
        "ranges": (Range.parse("lambda_p=1e-4:1e-1:log"), Range.parse("schedule=paper|constant")),
        "request": TINY,
        "tune_on": ("1",),
        "report_on": ("2",),
        "trials": 3,
    }
    return Study(**{**facts, **changes})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("tune") / "run"
    return out, tune(study(), out, execute=run_here)


def test_the_defaults_come_first_and_the_best_is_reported_on_other_clients(undisturbed):
    out, answer = undisturbed
    assert answer == json.loads((out / "tune.json").read_text())
    assert answer["complete"]
    assert answer["trials"][0]["settings"] == {"lambda_p": "0.01", "schedule": "paper"}
    values = [trial["value"] for trial in answer["trials"]]
    assert len(values) == 3
    assert answer["best"] == answer["trials"][values.index(max(values))]["settings"]
    assert set(answer["report"]) == {"defaults", "best"}
    assert set(answer["report"]["best"]) == {"2"}
    seeds = {json.loads(path.read_text())["client"]["seed"] for path in out.rglob("cell.json")}
    assert seeds == {1, 2}


def test_broken_off_and_started_again_it_ends_with_the_same_study(undisturbed, tmp_path):
    _, whole = undisturbed
    calls = []

    def breaking(*arguments, **options) -> bool:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run_here(*arguments, **options)

    with pytest.raises(KeyboardInterrupt):
        tune(study(), tmp_path / "run", execute=breaking)
    again = tune(study(), tmp_path / "run", execute=run_here)
    assert [trial["settings"] for trial in again["trials"]] == [trial["settings"] for trial in whole["trials"]]
    assert again["best"] == whole["best"]
    assert again["report"] == whole["report"]


def test_a_finished_study_runs_no_cell_again(undisturbed):
    out, answer = undisturbed

    def refusing(*arguments, **_) -> bool:
        assert arguments[1] == [], "no cell is left"
        return True

    assert tune(study(), out, execute=refusing)["trials"] == answer["trials"]


def test_clients_may_not_be_tuned_on_and_reported_on():
    with pytest.raises(InputError, match="2 would be tuned on and reported on"):
        tune(study(tune_on=("1", "2")), Path("never"), execute=run_here)
    assert not Path("never").exists()


def test_all_problems_of_a_study_are_listed_at_once():
    wrong = study(ranges=(Range.parse("lamda_p=0:1"),), trials=0, metric="psnrr", tune_on=())
    found = " ".join(str(problem) for problem in wrong.problems())
    assert all(word in found for word in ("lamda_p", "lambda_p", "--trials 0", "psnrr", "no client to tune on"))


@pytest.mark.parametrize("text", ["lambda_p", "=1:2", "tv=2:1", "tv=0:1:log", "tv=a:b", "tv=1:2:3", "tv=1:inf"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(InputError, match="--search"):
        Range.parse(text)


def test_a_default_outside_the_search_is_not_proposed():
    assert defaults_within(study(ranges=(Range.parse("tv=0.1:0.2"), Range.parse("gamma=0:1")))) == {"gamma": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"tune_on": ("2",), "report_on": ("1",)},
        {"metric": "ssim"},
        {"ranges": (Range.parse("lambda_p=1e-3:1e-1:log"), Range.parse("schedule=paper|constant"))},
        {"request": replace(TINY, n=2)},
    ],
)
def test_a_folder_holds_one_study(undisturbed, changes):
    out, _ = undisturbed
    with pytest.raises(InputError, match="a study with other settings"):
        tune(study(**changes), out, execute=run_here)


def test_more_trials_are_the_same_study(undisturbed, tmp_path):
    out, answer = undisturbed
    longer = shutil.copytree(out, tmp_path / "run")
    assert [t["value"] for t in tune(study(trials=4), longer, execute=run_here)["trials"][:3]] == [
        trial["value"] for trial in answer["trials"]
    ]
