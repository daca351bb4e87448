"""A real dashboard on a real socket, and raw requests to it: a library would tidy up what an attacker would not."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed (extra `web`)")
pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra `web`)")

from leakscope.web import configured
from leakscope.web.app import make_app

TOKEN = "a-token-for-tests"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass
class Server:
    """A dashboard that runs in a thread."""

    app: Any
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def entry(self) -> str:
        return f"{self.url}/?token={TOKEN}"

    @property
    def board(self) -> Any:
        return self.app.state.board

    @property
    def own(self) -> dict[str, str]:
        """The headers that the dashboard's own pages send."""
        cookie = f"leakscope-{self.port}={TOKEN}"
        return {"Host": f"127.0.0.1:{self.port}", "Cookie": cookie, "Origin": self.url}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str | None) -> Answer:
        """A request with the page's own headers, some of them changed or (by None) left out."""
        given = {**self.own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = self.connect()
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


Serving = Callable[..., Server]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """`serving(runs, command=...)` starts a dashboard; it ends with the module."""
    started: list[tuple[Any, threading.Thread, socket.socket]] = []

    def start(runs: Path, **options: Sequence[str]) -> Server:
        listener = socket.create_server(("127.0.0.1", 0))
        app = make_app(runs, token=TOKEN, port=listener.getsockname()[1], **options)
        server = configured(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        started.append((server, thread, listener))
        return Server(app, listener.getsockname()[1])

    yield start
    for server, thread, listener in started:
        server.should_exit = True
        thread.join(20)
        listener.close()


def until(condition: Callable[[], Any], *, seconds: float = 20.0) -> Any:
    """Wait for a condition, and say so when it does not come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")
