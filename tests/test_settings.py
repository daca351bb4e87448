"""An option is declared once: whatever shows, reads or checks it follows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import leakscope
from leakscope.cells.request import Request
from leakscope.cells.spec import ATTACK, Cell
from leakscope.errors import InputError, Problem
from leakscope.settings import Declared, LocalTraining, Option, asking, declared, in_python, problems_of

OPTIONS: Mapping[str, Declared] = declared(Request)
NUMBERS = [one for one in OPTIONS.values() if one.kind in (int, float)]


@dataclass(frozen=True, kw_only=True)
class Asked(Request):
    """A request with one more option: all that adding one takes."""

    patience: Annotated[
        int, Option(help="looks without progress before it stops", panel=ATTACK, label="Patience", within="[1, 100]")
    ] = 3


def test_a_new_option_is_on_the_command_line_in_python_in_the_form_and_in_the_report() -> None:
    from leakscope.cli.options import parameter
    from leakscope.web.form import Number

    one = declared(Asked)["patience"]

    def verb(**values: object) -> None:
        print(values)

    verb.__signature__ = inspect.Signature([parameter(one)])  # type: ignore[attr-defined]
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(verb)
    assert "looks without progress" in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["--patience", "4"]).output == "{'patience': 4}\n"

    @asking(Asked)
    def ask(asked: Asked) -> int:
        return asked.patience

    assert ask(patience=5) == 5
    assert inspect.signature(ask).parameters["patience"].annotation is int
    assert "patience: looks without progress" in str(ask.__doc__)
    assert Number(one, 3, 10, "").label == "Patience"
    assert [problem.found for problem in problems_of(Asked(patience=0))] == ["--patience 0 is not at least 1"]
    assert one.may_show("7")  # a number names nobody, so that a redacted command keeps it


def test_every_option_has_help_and_a_panel_and_no_flag_is_there_twice() -> None:
    assert all(one.option.help and one.option.panel for one in OPTIONS.values())
    assert len({one.flag for one in OPTIONS.values()}) == len(OPTIONS)


def test_the_python_signature_is_typed_and_complete() -> None:
    parameters = inspect.signature(leakscope.audit).parameters
    assert set(parameters) == {"client", *OPTIONS}
    assert parameters["n"].annotation is int
    assert parameters["n"].default == 50
    assert "local epochs E" in str(leakscope.audit.__doc__)
    assert {"audit", "LocalClient", "assert_no_leak", "read_update"} <= set(dir(leakscope))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, -1e300, 1e300, "many", True])
@pytest.mark.parametrize("name", [one.name for one in NUMBERS])
def test_no_number_is_taken_that_is_out_of_bounds(name: str, value: Any) -> None:
    found = list(problems_of(Request(**{name: value})))
    assert len(found) == 1
    assert found[0].found.startswith(OPTIONS[name].flag)
    assert found[0].fix == f"{OPTIONS[name].flag} {OPTIONS[name].example}"
    fixed = Request(**{name: OPTIONS[name].example})
    assert not list(problems_of(fixed))


def test_errors_name_the_option_in_the_language_of_the_caller() -> None:
    with pytest.raises(InputError, match="n=0 is not at least 1"):
        leakscope.audit(n=0)
    with pytest.raises(InputError, match="--n 0 is not at least 1"):
        Request(n=0).cells()
    with pytest.raises(InputError, match="epochs=0 is not at least 1"):
        LocalTraining(epochs=0)
    with pytest.raises(InputError, match='dataset="photos"'):
        leakscope.audit("photos")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("--matching auto", 'matching="auto"'),
        ("--batch-size 10, or leave --writer out", "batch_size=10, or leave writer out"),
        ("--defense dpsgd:epsilon=10,clip=1", 'defenses=["dpsgd:epsilon=10,clip=1"]'),
        ("--w0 FILE.safetensors", 'w0="FILE.safetensors"'),
        ("--n smaller", "n smaller"),
        ("--search lambda_p=1e-4:1e-1:log", "--search lambda_p=1e-4:1e-1:log"),
    ],
)
def test_advice_is_translated_for_python(said: str, meant: str) -> None:
    assert in_python(Problem("x", fix=said), Request).fix == meant


def test_text_is_taken_for_paths_and_for_lists_of_one() -> None:
    request = Request(out="runs/a", defenses="none", attacks=["sme"], lr=1)  # type: ignore[arg-type]
    assert (request.out, request.defenses, request.attacks) == (Path("runs/a"), ("none",), ("sme",))
    assert isinstance(request.lr, float)


def test_a_cell_is_what_its_flat_form_says() -> None:
    for cell in Request(attacks=["sme", "nl-sme"], defenses=["none", "clip:bound=1"], n=4, iterations=2).cells():
        assert Cell.read(cell.flat()) == cell
        assert Cell.read(cell.flat()).key == cell.key == Cell.read(cell.flat(brief=True)).key
        assert cell.but(seed=9).client.seed == 9
        assert cell.but(seed=9).key != cell.key


def test_every_fact_of_a_cell_counts_in_its_key_unless_it_says_where_something_lies() -> None:
    (cell,) = Request(n=4, iterations=2).cells()
    others: dict[type, Any] = {int: 7, float: 0.125, str: "other", bool: True}
    for name, value in cell.flat().items():
        if name in ("plugins", "prior", "settings", "own"):
            continue
        one = OPTIONS.get(name)
        choices = [word for word in (one.choices if one else ()) if word != value]
        other = choices[0] if choices else others.get(type(value), others[str] if value is None else None)
        if value is None and name in ("budget", "batch_size"):
            other = 7
        assert cell.but(**{name: other}).key != cell.key, name


def test_facts_that_nobody_knows_are_refused_with_their_names() -> None:
    (cell,) = Request(n=4, iterations=2).cells()
    with pytest.raises(InputError) as error:
        Cell.read({**cell.flat(), "n": "four", "colour": "red"})
    assert [problem.found.split(":")[0].split(" ")[0] for problem in error.value.problems] == ["'colour'", "n"]


def test_fields_may_be_made_without_text_annotations() -> None:
    made = make_dataclass("Made", [("n", Annotated[int, Option(help="x")], 1)])
    assert declared(made)["n"].kind is int
