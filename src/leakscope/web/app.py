"""The pages and streams of the dashboard."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import anyio.to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from leakscope.cells.request import DEFAULT_ATTACK
from leakscope.data import DATASETS
from leakscope.errors import InputError, Problem
from leakscope.report import render
from leakscope.report.page import asset, page, short, signed
from leakscope.report.reading import check_key, read_run
from leakscope.web.compare import pair, worst_strip
from leakscope.web.feed import Feeds, FullError, Source
from leakscope.web.folder import RunsFolder
from leakscope.web.form import CHOICES, DEFAULTS, NUMBERS, SUGGESTED_DEFENSES, offered_attacks, read_form
from leakscope.web.guard import Guard
from leakscope.web.jobs import COMMAND, Jobs
from leakscope.web.progress import HEAD, Progress

T = TypeVar("T")
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals allow-downloads; default-src 'none'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""A report may come from elsewhere: it runs its script in an origin of its own, and reaches nothing."""
TYPES = {"css": "text/css", "js": "text/javascript"}


class Dashboard:
    """The state behind the pages."""

    def __init__(self, runs: Path, *, command: Sequence[str]) -> None:
        self.folder = RunsFolder(runs)
        self.jobs = Jobs(self.folder, command=command)
        self.feeds = Feeds()
        self.env = Environment(
            loader=PackageLoader("leakscope.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.env.filters |= {"short": short, "signed": signed}

    # pages

    async def home(self, _: Request) -> Response:
        runs = await in_thread(self.overviews)
        return self.show("runs.html.j2", runs=list(runs.values()))

    async def run(self, request: Request) -> Response:
        name = self.name(request)
        entries = await in_thread(partial(self.snapshot, Progress(self.folder, name)))
        head = entries.pop(HEAD)
        return self.show("run.html.j2", head=head, cells=list(entries.values()), complaint=head["complaint"])

    async def new(self, request: Request) -> Response:
        if request.method == "GET":
            return self.show_form({}, ())
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100)
        try:
            form = read_form(fields)
            await in_thread(lambda: form.request().cells())  # everything that the audit itself would complain about
            await in_thread(partial(self.jobs.start, form))
        except InputError as error:
            return self.show_form(fields, error.problems, status=422)
        return RedirectResponse(f"/runs/{form.name}", 303)

    async def stop(self, request: Request) -> Response:
        name = self.name(request)
        await in_thread(partial(self.jobs.stop, name))
        return RedirectResponse(f"/runs/{name}", 303)

    async def resume(self, request: Request) -> Response:
        name = self.name(request)
        await in_thread(partial(self.jobs.resume, name))
        return RedirectResponse(f"/runs/{name}", 303)

    async def compare(self, request: Request) -> Response:
        names = self.folder.names()
        chosen = [request.query_params.get(side, "") for side in ("a", "b")]
        if not all(chosen):
            return self.show("compare.html.j2", names=names, chosen=chosen, pairs=None, strips=(), runs=())
        left, right = [await in_thread(partial(self.folder.read, name)) for name in chosen]
        strips = [await in_thread(partial(worst_strip, run)) for run in (left, right)]
        pairs = await in_thread(partial(pair, left, right))
        return self.show("compare.html.j2", names=names, chosen=chosen, pairs=pairs, strips=strips, runs=(left, right))

    # files

    async def report(self, request: Request) -> Response:
        name = self.name(request)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        if "download" in request.query_params:
            headers["Content-Disposition"] = f'attachment; filename="{name}.html"'
        if "redact" in request.query_params:
            text = await in_thread(lambda: page(read_run(self.folder.place(name)), redact=True))
            return HTMLResponse(text, headers=headers)
        return FileResponse(await in_thread(partial(self.fresh_report, name)), media_type="text/html", headers=headers)

    def fresh_report(self, name: str) -> Path:
        """index.html, rendered again where a cell or the result is newer."""
        place, index = self.folder.place(name), self.folder.place(name, "index.html")
        sources = [*place.glob("cells/*/cell.json"), *place.glob("result.json")]
        if index.is_file() and index.stat().st_mtime >= max((path.stat().st_mtime for path in sources), default=0.0):
            return index
        return render(place)

    async def result(self, request: Request) -> Response:
        name = self.name(request)
        path = self.folder.place(name, "result.json")
        if not path.is_file():
            raise HTTPException(404, "This run has no result yet.")
        return FileResponse(path, media_type="application/json", filename=f"{name}.json")

    async def preview(self, request: Request) -> Response:
        key = check_key(request.path_params["key"])
        path = self.folder.place(self.name(request), "cells", key, "preview.png")
        if not path.is_file():
            raise HTTPException(404, "There is no picture yet.")
        return FileResponse(path, media_type="image/png")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return Response(STATIC[name](), media_type=TYPES[name.rpartition(".")[2]])

    # streams

    async def all_events(self, _: Request) -> Response:
        return self.stream("", self.overviews)

    async def run_events(self, request: Request) -> Response:
        name = self.name(request)
        return self.stream(name, partial(self.snapshot, Progress(self.folder, name)))

    def stream(self, name: str, source: Source) -> Response:
        try:
            return self.feeds.stream(name, source)
        except FullError:
            return PlainTextResponse("Too many pages are watching; close some.\n", 503, {"Retry-After": "10"})

    # helpers

    def name(self, request: Request) -> str:
        """The run a request speaks of; one that is not there is not found."""
        name: str = request.path_params["name"]
        if not self.folder.has(name) and not self.jobs.can_resume(name) and not self.jobs.is_working(name):
            raise HTTPException(404, f"There is no run {name!r}.")
        return name

    def overviews(self) -> dict[str, dict[str, Any]]:
        """Every run, also those that have just been started and have no folder yet."""
        working = self.jobs.working()
        names = dict.fromkeys((*(name for name in working if not self.folder.has(name)), *self.folder.names()))
        return {name: self.folder.overview(name, working=name in working).as_data() for name in names}

    def snapshot(self, progress: Progress) -> dict[str, dict[str, Any]]:
        name = progress.name
        entries = progress.snapshot(working=self.jobs.is_working(name))
        entries[HEAD] |= {
            "key": HEAD,
            "mine": self.jobs.is_working(name),
            "resumable": entries[HEAD]["state"] in ("stopped", "broken") and self.jobs.can_resume(name),
            "complaint": self.jobs.complaint(name),
        }
        return entries

    def show(self, template: str, *, status: int = 200, **values: object) -> Response:
        return HTMLResponse(self.env.get_template(template).render(values), status)

    def show_form(
        self, fields: Mapping[str, Sequence[str]], problems: Sequence[Problem], *, status: int = 200
    ) -> Response:
        return self.show(
            "new.html.j2",
            status=status,
            fields=fields,
            problems=problems,
            suggested_name=time.strftime("audit-%Y%m%d-%H%M%S"),
            attacks=offered_attacks(),
            default_attack=DEFAULT_ATTACK,
            datasets=DATASETS,
            defenses=SUGGESTED_DEFENSES,
            numbers=NUMBERS,
            choices=CHOICES,
            defaults=DEFAULTS,
        )

    async def refuse_input(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, InputError)
        return self.show("problem.html.j2", status=400, problems=error.problems)

    async def refuse_system(self, _: Request, error: Exception) -> Response:
        """A full disk, a folder without permission: said, and the dashboard goes on."""
        assert isinstance(error, OSError)
        return self.show(
            "problem.html.j2", status=500, problems=[Problem(error.strerror or "a file could not be read")]
        )

    async def refuse_http(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self.show("problem.html.j2", status=error.status_code, problems=[Problem(error.detail)])


async def in_thread(work: Callable[[], T]) -> T:
    """Files are read and processes started outside the loop that serves the streams."""
    return await anyio.to_thread.run_sync(work)


def _own(name: str) -> str:
    return resources.files("leakscope.web").joinpath("static", name).read_text(encoding="utf-8")


STATIC: dict[str, Callable[[], str]] = {
    "theme.css": partial(asset, "theme.css"),
    "web.css": partial(_own, "web.css"),
    "web.js": partial(_own, "web.js"),
}


def make_app(runs: Path, *, token: str, port: int, command: Sequence[str] = COMMAND) -> Starlette:
    """The dashboard over one folder of runs, as an ASGI application."""
    board = Dashboard(runs, command=command)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        await in_thread(board.jobs.stop_all)

    routes = [
        Route("/", board.home),
        Route("/events", board.all_events),
        Route("/new", board.new, methods=["GET", "POST"]),
        Route("/compare", board.compare),
        Route("/runs/{name}", board.run),
        Route("/runs/{name}/events", board.run_events),
        Route("/runs/{name}/stop", board.stop, methods=["POST"]),
        Route("/runs/{name}/resume", board.resume, methods=["POST"]),
        Route("/runs/{name}/report", board.report),
        Route("/runs/{name}/result.json", board.result),
        Route("/runs/{name}/cells/{key}/preview.png", board.preview),
        Route("/static/{name}", board.static),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers={
            InputError: board.refuse_input,
            OSError: board.refuse_system,
            HTTPException: board.refuse_http,
        },
    )
    app.state.board = board
    return app
