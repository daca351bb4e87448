"""The form: only whitelisted options, every problem at once, and the same meaning as the command line."""

from __future__ import annotations

from typing import Any

import pytest

from leakscope.errors import InputError
from leakscope.web.form import CHOICES, NUMBERS, SUGGESTED_DEFENSES, Form, offered_attacks, read_form

FILLED = {
    "name": ["mine"],
    "dataset": ["photos"],
    "attack": ["sme", "ig"],
    "defense": ["none", "clip:bound=4"],
    "other_defenses": ["clip:bound=1+gaussian:std=0.01"],
    "n": ["4"],
    "lr": ["0.01"],
    "batch_size": [""],
}


@pytest.fixture(scope="module")
def audit() -> Any:
    """The `audit` verb of the command line."""
    from leakscope.cli import verb

    return verb("audit")


def test_a_filled_form_becomes_options() -> None:
    form = read_form(FILLED)
    words = form.options()
    pairs = list(zip(words[::2], words[1::2], strict=True))
    assert ("--attack", "sme") in pairs
    assert ("--attack", "ig") in pairs
    assert ("--defense", "clip:bound=1+gaussian:std=0.01") in pairs
    assert ("--n", "4") in pairs
    assert ("--lr", "0.01") in pairs
    assert "--batch-size" not in words
    assert "--out" not in words


def test_every_option_is_one_of_the_command_line(audit: Any) -> None:
    known = {name for parameter in audit.params for name in parameter.opts}
    words = read_form({**FILLED, "model": ["mlp"], "batch_size": ["2"]}).options()
    assert set(words[::2]) <= known


def test_the_command_line_understands_it_as_the_form_does(audit: Any) -> None:
    """The form's own request and the parsed options name the same cells."""
    from leakscope.cli.options import OPTIONS, request

    form = read_form({**FILLED, "other_defenses": [""]})
    parsed = audit.make_context("audit", form.options()).params
    given = {name: value for name, value in parsed.items() if name in OPTIONS}
    cells = form.request().cells()
    assert len(cells) == 4
    assert {cell.key for cell in cells} == {cell.key for cell in request(given).cells()}
    assert {cell.client.n for cell in cells} == {parsed["n"]}
    assert {cell.attack.attack for cell in cells} == set(parsed["attacks"])
    assert {cell.defense for cell in cells} == set(parsed["defenses"])
    assert {cell.client.lr for cell in cells} == {parsed["lr"]}


def test_it_survives_being_kept_on_disk() -> None:
    form = read_form(FILLED)
    assert read_form(form.as_fields()) == form


def test_an_empty_form_has_sensible_defaults() -> None:
    form = read_form({"name": ["x"], "attack": ["sme"]})
    assert form == Form(name="x", attacks=("sme",))


@pytest.mark.parametrize(("iterations", "history"), [("10", 1), ("500", 10), ("100000", 50)])
def test_about_fifty_pictures_are_shown(iterations: str, history: int) -> None:
    form = read_form({"name": ["x"], "attack": ["sme"], "iterations": [iterations]})
    assert form.history == history
    assert form.request().history == history
    words = form.options()
    assert words[words.index("--history") + 1] == str(history)


@pytest.mark.parametrize("defense", SUGGESTED_DEFENSES)
def test_what_is_suggested_is_accepted(defense: str) -> None:
    assert read_form({"name": ["x"], "attack": ["sme"], "defense": [defense]}).request().cells()


def test_all_problems_are_said_at_once() -> None:
    fields = {"name": ["../x"], "attack": ["smee"], "defense": ["clipp:bound=4"], "n": ["0"], "epochs": ["many"]}
    with pytest.raises(InputError) as caught:
        read_form({**fields, "dataset": ["mnist"], "weights": ["/etc"]})
    text = str(caught.value)
    for part in (
        "'../x'",
        "did you mean 'sme'",
        "did you mean 'clip'",
        "Images of the client: 0",
        "Local epochs: 'many'",
        "'mnist'",
        "'weights'",
    ):
        assert part in text


@pytest.mark.parametrize(
    "fields",
    [
        {"defense": ["clip:bound=4; rm -rf /"]},
        {"defense": ["--out=/etc"]},
        {"other_defenses": ["$(id)"]},
        {"other_defenses": ["clip:bound=4 --executor=ray"]},
        {"dataset": ["folder:/home"]},
        {"dataset": ["--json"]},
        {"model": ["os:system"]},
        {"model": ["/tmp/evil.py:factory"]},
        {"labels": ["known --out x"]},
        {"name": ["--help"]},
        {"n": ["1e9"]},
        {"n": ["٣"]},
        {"lr": ["nan"]},
        {"lr": ["inf"]},
        {"seed": ["-1"]},
        {"workers": ["100000"]},
        {"attack": []},
        {"data_root": ["/etc"]},
    ],
)
def test_nothing_else_gets_into_a_command(fields: dict[str, list[str]]) -> None:
    given = {"name": ["x"], "attack": ["sme"], **fields}
    try:
        words = read_form(given).options()
    except InputError:
        return
    assert fields == {"n": ["٣"]}  # a digit of another script is still a number, and is written as ours
    assert words[words.index("--n") + 1] == "3"


def test_fields_have_ranges_and_choices() -> None:
    for number in NUMBERS.values():
        assert number.default is None or number.low <= number.default <= number.most
    assert "photos" in CHOICES["dataset"]
    assert not any("folder" in name for name in CHOICES["dataset"])


def test_an_attack_that_reads_a_file_is_not_offered() -> None:
    assert "sme" in offered_attacks()
    assert "dggi" not in offered_attacks()
    with pytest.raises(InputError, match="unknown attack 'dggi'"):
        read_form({**FILLED, "attack": ["dggi"]})
