"""The options that several verbs share, taken from where they are declared: one spelling everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leakscope.cells.request import Request
from leakscope.settings import ATTACK, CLIENT, RUN, Declared, declared

OPTIONS = declared(Request)
PANELS = {
    panel: [name for name, one in OPTIONS.items() if one.option.panel == panel] for panel in (CLIENT, ATTACK, RUN)
}
Given = Mapping[str, Any]
Json = Annotated[
    bool, typer.Option("--json", help="one JSON document on stdout, everything else on stderr", rich_help_panel=RUN)
]


def option(one: Declared) -> Any:
    """The same option as typer shows it."""
    return typer.Option(one.flag, help=one.option.help.replace("[", "\\["), rich_help_panel=one.option.panel)


DataRoot = Annotated[Path | None, option(OPTIONS["data_root"])]
Plugins = Annotated[list[str] | None, option(OPTIONS["plugins"])]
Device = Annotated[str, option(OPTIONS["device"])]


def parameter(one: Declared, default: Any = None) -> inspect.Parameter:
    """An option as typer reads it; what a repeatable one defaults to is told in its help."""
    single: Any = list[str] if one.kind is list else one.kind
    kind = single | None if one.kind is list or one.default is None else single
    usual = one.default if default is None else default
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, option(one)],
        default=None if one.kind is list else usual,
    )


def taking(
    *panels: str, only: Collection[str] = (), but: Collection[str] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of these panels beside its own; it receives what was given as one mapping, `given`.

    `only` takes these of all options as well, `but` leaves these out, `defaults` are other ones than the request's.
    """
    names = [*(name for panel in panels for name in PANELS[panel]), *only]
    shared = [parameter(OPTIONS[name], defaults.get(name)) for name in names if name not in but]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "given"]

        @functools.wraps(verb)
        def run(**values: Any) -> None:
            given = {one.name: values.pop(one.name) for one in shared}
            verb(given={**given, **{name: given.get(name) or usual for name, usual in defaults.items()}}, **values)

        keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        run.__signature__ = inspect.Signature([*shared, *keyword])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in (*shared, *keyword)}
        return run

    return decorate


def request(given: Given, *, json: bool = False, **more: Any) -> Request:
    """The request that the options ask for; what was not given is the request's own default."""
    asked = Request(**{name: value for name, value in {**given, **more}.items() if value is not None})
    return replace(asked, quiet=asked.quiet or json)
