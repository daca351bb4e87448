"""From tables to cells."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from from_results import Known, known_lines
from leakscope.attacks import ATTACKS
from leakscope.errors import InputError
from leakscope.paper import choose, read_target
from leakscope.paper.grid import Datasets, clients_of, entries, plan, plan_without_data
from leakscope.paper.results import cell_of, facts, read_results
from leakscope.runs.places import Places

RESULTS = Path(__file__).parents[2] / "results"


def cells(name, **options):
    usual = {"clients": 1, "quick": False, "places": Places(), "present": lambda _: True}
    found = entries(read_target(name), **{**usual, **options})
    return {(entry.setting.name, entry.attack): plan_without_data(entry) for entry in found}


def test_every_entry_is_one_cell_per_client():
    for target in choose("all"):
        for (_, attack), found in cells(target.name, clients=2).items():
            assert len(found) == (2 if attack is None or attack in ATTACKS else 0)


def test_the_same_cell_is_the_same_in_every_table():
    main = cells("table1")["CIFAR-100, T = 100", "nl-sme"]
    assert cells("table5")["CIFAR-100, trajectory on, calibration on", "nl-sme"] == main
    assert cells("table6")["CIFAR-100, lambda_p = 1e-2", "nl-sme"] == main
    assert cells("table8")["CIFAR-100, T = 100", "nl-sme"] == main
    assert cells("figure3")["CIFAR-100, T = 100", "nl-sme"] == main
    assert cells("figure5")["CIFAR-100, E = 20", "nl-sme"] == main
    linear = cells("table7")["CIFAR-100, lambda_d = 1e-5", "nl-sme"]
    assert cells("table6")["CIFAR-100, lambda_p = 1e-3", "nl-sme"] == linear


def test_only_nl_sme_matches_by_reliability_under_noise():
    found = cells("table10")
    asked = {
        attack: cell.attack.matching for (_, attack), (cell,) in found.items() if attack in ("ig", "sme", "nl-sme")
    }
    assert asked == {"ig": "global", "sme": "global", "nl-sme": "auto"}


@pytest.mark.parametrize(("name", "few"), [("table1", 400), ("table3", 200)])
def test_generators_get_fewer_iterations_on_a_cpu_and_the_table_says_so(name, few):
    target, usual = read_target(name), {"clients": 1, "quick": False, "places": Places(), "present": lambda _: True}
    for device, iterations, notes in (("cpu", few, (f"cut on a CPU: {few} iterations",)), ("cuda", 1000, ())):
        found = next(one for one in entries(target, device=device, **usual) if one.attack == "gi-nas")
        assert (found.requests[0].iterations, found.notes) == (iterations, notes)


def test_quick_is_small_everywhere_and_never_one_of_the_paper_s_cells():
    for target in choose("all"):
        for found in cells(target.name, quick=True).values():
            for cell in found:
                assert cell.client.n <= 17
                assert cell.attack.iterations == 10
                assert cell.client.training.steps(cell.client.n) <= 120


def test_missing_data_is_a_reason_not_an_error(tmp_path):
    entry = next(iter(entries(read_target("table4"), clients=1, quick=False, places=Places(tmp_path))))
    planned = plan(entry, Datasets())
    assert planned.cells == ()
    assert "femnist" in planned.reasons[0]


def test_a_prior_is_that_of_the_data_set_or_the_reason_for_a_gap(tmp_path):
    (tmp_path / "femnist").mkdir()
    places = Places(priors=tmp_path)
    found = list(entries(read_target("table1"), clients=1, quick=False, places=places, present=lambda _: True))
    priors = {(entry.attack, entry.requests[0].dataset): entry.requests[0].prior for entry in found}
    assert priors["dggi", "femnist"] == str(tmp_path / "femnist")
    assert priors["dggi", "cifar100"] is None
    assert {prior for (attack, _), prior in priors.items() if attack != "dggi"} == {None}
    (gap,) = (entry for entry in found if (entry.attack, entry.setting.name) == ("dggi", "CIFAR-100, T = 100"))
    planned = plan(gap, SimpleNamespace(load=lambda _: None))
    assert planned.cells == ()
    assert "dggi needs a prior" in planned.reasons[0]


def test_a_stand_in_is_labelled(tmp_path):
    entry = next(iter(entries(read_target("table12"), clients=1, quick=False, places=Places(tmp_path))))
    assert entry.requests[0].dataset == "organamnist28@64"
    assert "enlarged" in entry.notes[0]


def test_reports_are_made_on_other_clients_than_defaults_were_chosen_on():
    writers = {who["writer"] for who in clients_of("femnist", 11)}
    assert not writers & {"1", "2", "7", "15", "23"}
    assert min(who["seed"] for who in clients_of("cifar100", 5)) > 100
    with pytest.raises(InputError, match="11 writers of femnist"):
        clients_of("femnist", 12)


def test_every_row_of_results_can_be_read_as_a_cell():
    rows = read_results(RESULTS)
    assert rows
    for row in rows:
        assert facts(cell_of(row))["attack"] == row["attack"]


def test_results_answer_the_main_table():
    known = Known.read(RESULTS)
    lines = known_lines(read_target("table1"), known)
    (nl_sme,) = [
        line for line in lines if (line.setting, line.attack, line.metric) == ("FEMNIST, T = 100", "nl-sme", "psnr")
    ]
    main = json.loads((RESULTS / "main.json").read_text())["cells"]
    five = [who["writer"] for who in clients_of("femnist", 5)]
    own = [row for row in main if row["attack"] == "nl-sme" and row["client"].get("writer") in five]
    assert nl_sme.clients == len(own) == 5
    assert nl_sme.measured == pytest.approx(sum(row["metrics"]["psnr"] for row in own) / 5)
    assert nl_sme.difference == pytest.approx(nl_sme.measured - 24.1797)
