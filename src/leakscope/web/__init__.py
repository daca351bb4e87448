"""The live dashboard over a folder of runs: what one watches while an audit goes on. Loopback only, behind a token."""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from leakscope.errors import InputError, Problem, refuse

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

__all__ = ["serve"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    runs: Path, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, open_browser: bool = False
) -> None:
    """Serve the runs below a folder until interrupted; audits started here are stopped with it and can be resumed.

    `port` 0 takes a free one. The printed address carries the token, without which nothing is shown.
    """
    refuse(_problems(runs, host))
    from leakscope.web.app import make_app

    runs.mkdir(parents=True, exist_ok=True)
    token = token or secrets.token_urlsafe(24)
    with _listen(host, port) as listener:
        number = listener.getsockname()[1]
        app = make_app(runs, token=token, port=number)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{number}/?token={token}"
        print(f"dashboard  {address}", flush=True)
        if open_browser:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it, after everything was put away
            configured(app).run(sockets=[listener])


def configured(app: Starlette) -> uvicorn.Server:
    """A server for the dashboard: quiet, without web sockets, and not waiting for streams when it ends."""
    import uvicorn  # the extra `web`, so not before it is known to be there

    return uvicorn.Server(
        uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=1
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            Problem(f"cannot listen on {host} port {port}: {error.strerror}", fix="--port 0 takes a free one")
        ) from error


def _problems(runs: Path, host: str) -> list[Problem]:
    found = []
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        found.append(Problem(f"{' and '.join(missing)} not installed", fix="pip install 'leakscope[web]'"))
    if host not in LOOPBACK:
        found.append(
            Problem(
                f"{host} is not this machine's own address",
                why="the dashboard shows private images and starts programs",
                fix="--host 127.0.0.1, and reach it from afar through ssh -L",
            )
        )
    if runs.exists() and not runs.is_dir():
        found.append(Problem(f"{runs} is a file", fix="give the folder that holds the runs"))
    if (runs / "plan.json").is_file() or (runs / "result.json").is_file():
        found.append(Problem(f"{runs} is itself a run", fix=f"leakscope serve {runs.parent}"))
    return found
