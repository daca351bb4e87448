"""A key stands for settings and for what they meant: each part whose numbers changed has a revision that counts."""

from dataclasses import replace
from pathlib import Path

import pytest

from leakscope.attacks import ATTACKS
from leakscope.cells.planning import grid
from leakscope.cells.request import Request
from leakscope.cells.spec import Cell, Recorded, revisions
from leakscope.data import clients
from leakscope.defenses import DEFENSES
from leakscope.metrics import METRICS


def cell_of(attack: str = "nl-sme", defense: str = "none") -> Cell:
    (cell,) = grid(Request(attacks=(attack,), defenses=(defense,)), "photos", "")
    return cell


def keys() -> dict[str, str]:
    return {
        "nl-sme": cell_of().key,
        "sme": cell_of("sme").key,
        "clip": cell_of(defense="clip:bound=1").key,
        "clip and noise": cell_of(defense="clip:bound=1+gaussian:std=0.1").key,
        "recorded": replace(cell_of(), source=Recorded(update_file="round.safetensors")).key,
    }


def raise_attack(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ATTACKS, "nl-sme", replace(ATTACKS["nl-sme"], revision=1))


def raise_defense(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DEFENSES["clip"], "revision", 2)


def raise_metric(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(METRICS, "psnr", replace(METRICS["psnr"], revision=1))


def raise_draw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clients, "REVISION", 1)


@pytest.mark.parametrize(
    ("changed", "others"),
    [
        (raise_attack, {"nl-sme", "clip", "clip and noise", "recorded"}),
        (raise_defense, {"clip", "clip and noise"}),
        (raise_metric, {"nl-sme", "sme", "clip", "clip and noise", "recorded"}),
        (raise_draw, {"nl-sme", "sme", "clip", "clip and noise"}),
    ],
)
def test_a_raised_revision_changes_the_keys_of_the_cells_that_it_is_part_of(changed, others, monkeypatch):
    before = keys()
    changed(monkeypatch)
    after = keys()
    assert {name for name in before if before[name] != after[name]} == others


def test_a_revision_is_told_by_the_name_of_what_changed(monkeypatch):
    assert revisions(cell_of()) == {}
    raise_attack(monkeypatch)
    raise_defense(monkeypatch)
    assert revisions(cell_of(defense="clip:bound=1e+06")) == {"attack nl-sme": 1, "defense clip": 2}


def test_what_a_plugin_registers_needs_no_revision(monkeypatch):
    class Bare:
        """Has none."""

    monkeypatch.setitem(DEFENSES, "bare", Bare)
    assert revisions(replace(cell_of(), defense="bare", plugins=(str(Path("mine.py")),))) == {}
