"""What must not get through: wrong tokens, foreign hosts and origins, paths that climb, bodies without end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.web.guard import BODY_LIMIT, HEADERS
from sample_run import write_run

Serving = Callable[..., Any]
PAGES = ("/", "/new", "/compare", "/events", "/runs/demo", "/runs/demo/report", "/runs/demo/events", "/static/web.js")


@pytest.fixture(scope="module")
def dashboard(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "secret.txt").write_text("secret")
    write_run(folder / "runs" / "demo", n=3)
    return serving(folder / "runs")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("cookie", [None, "", "leakscope-{port}=wrong", "leakscope-1=a-token-for-tests", ";;;=[]{{"])
def test_nothing_is_shown_without_the_token(dashboard: Any, path: str, cookie: str | None) -> None:
    answer = dashboard.ask(path, Cookie=cookie and cookie.format(port=dashboard.port))
    assert answer.status == 403
    assert "token" in answer.text
    assert "demo" not in answer.text


def test_the_address_with_the_token_opens_the_page_and_hides_the_token(dashboard: Any) -> None:
    answer = dashboard.ask("/compare?a=x&token=a-token-for-tests", Cookie=None, Origin=None)
    assert answer.status == 303
    assert answer.headers["location"] == "/compare?a=x"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert dashboard.ask("/?token=wrong", Cookie=None).status == 403


def test_the_welcome_never_leads_to_another_host(dashboard: Any) -> None:
    for path in ("//evil.example/", "/\\evil.example/"):
        answer = dashboard.ask(f"{path}?token=a-token-for-tests", Cookie=None, Origin=None)
        assert answer.headers["location"].startswith("/evil.example")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", None])
def test_a_foreign_host_is_refused(dashboard: Any, host: str | None) -> None:
    answer = dashboard.ask("/", Host=host and host.format(port=dashboard.port))
    assert answer.status in (400, 421)
    assert "demo" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/new"), ("POST", "/runs/demo/stop")])
def test_a_foreign_origin_is_refused(dashboard: Any, origin: str, method: str, path: str) -> None:
    body = b"name=x&attack=sme" if method == "POST" else None
    answer = dashboard.ask(path, method=method, body=body, Origin=origin.format(port=dashboard.port))
    assert answer.status == 403


def test_a_command_without_an_origin_is_refused(dashboard: Any) -> None:
    assert dashboard.ask("/new", method="POST", body=b"name=x&attack=sme", Origin=None).status == 403


@pytest.mark.parametrize("path", ["/runs/demo/stop", "/runs/demo/resume"])
def test_reading_commands_nothing(dashboard: Any, path: str) -> None:
    assert dashboard.ask(path).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../secret.txt",
        "/runs/../../secret.txt/report",
        "/runs/%2e%2e/report",
        "/runs/%2e%2e%2fsecret.txt/report",
        "/runs/..%2f..%2fetc%2fpasswd/report",
        "/runs/demo/../../secret.txt",
        "/runs/demo/cells/../../../secret.txt/preview.png",
        "/runs/demo/cells/%2e%2e/preview.png",
        "/runs/demo/cells/..%2f..%2f..%2fsecret.txt%00/preview.png",
        "/runs/.leakscope/report",
        "/runs/%00/report",
        "/runs/" + "a" * 5000 + "/report",
        "/static/../guard.py",
        "/static/%2e%2e%2fapp.py",
        "/compare?a=../..&b=demo",
        "/compare?a=/etc&b=demo",
    ],
)
def test_no_path_climbs_out(dashboard: Any, path: str) -> None:
    answer = dashboard.ask(path)
    assert answer.status in (400, 404)
    assert "secret" not in answer.text.replace("secret.txt", "")
    assert "root:" not in answer.text


def test_no_link_leads_out(serving: Serving, tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside", n=3)
    runs = tmp_path / "runs"
    write_run(runs / "demo", n=3)
    (runs / "linked").symlink_to(outside)
    (runs / "demo" / "index.html").symlink_to(outside / "result.json")
    preview = next((runs / "demo" / "cells").iterdir()) / "preview.png"
    preview.symlink_to(outside / "result.json")
    dashboard = serving(runs)
    assert "linked" not in dashboard.ask("/").text
    assert dashboard.ask("/runs/linked/report").status in (400, 404)
    assert dashboard.ask("/runs/demo/report").status == 400
    assert dashboard.ask(f"/runs/demo/cells/{preview.parent.name}/preview.png").status == 400


def test_an_announced_body_of_100_mb_is_refused_unread(dashboard: Any) -> None:
    connection = dashboard.connect()
    connection.putrequest("POST", "/new", skip_host=True)
    for name, value in {**dashboard.own, "Content-Length": str(100 * 2**20)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_chunked_body_of_100_mb_is_cut_off(dashboard: Any) -> None:
    connection = dashboard.connect()
    connection.putrequest("POST", "/new", skip_host=True)
    for name, value in {**dashboard.own, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    block, sent = b"x" * 2**18, 0
    try:
        while sent < 100 * 2**20:
            connection.send(f"{len(block):x}\r\n".encode() + block + b"\r\n")
            sent += len(block)
    except OSError:
        pass
    assert sent < 20 * 2**20  # what the buffers of two sockets take at most, far from all of it
    connection.close()
    start = time.perf_counter()
    assert dashboard.ask("/").status == 200
    assert time.perf_counter() - start < 2


def test_a_body_just_below_the_limit_is_read(dashboard: Any) -> None:
    body = b"name=x&attack=" + b"a" * (BODY_LIMIT - 100)
    assert dashboard.ask("/new", method="POST", body=body).status == 422


@pytest.mark.parametrize("path", [*(page for page in PAGES if "events" not in page), "/nowhere", "/runs/none"])
def test_every_answer_carries_the_headers(dashboard: Any, path: str) -> None:
    answer = dashboard.ask(path)
    for name, value in HEADERS.items():
        if path != "/runs/demo/report" or name != "Content-Security-Policy":
            assert answer.headers[name.lower()] == value


def test_a_report_is_kept_in_an_origin_of_its_own(dashboard: Any) -> None:
    policy = dashboard.ask("/runs/demo/report").headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


def test_unreadable_folders_do_no_harm(serving: Serving, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    good = write_run(runs / "good", n=3)
    (runs / "torn").mkdir()
    (runs / "torn" / "result.json").write_text('{"cells": [')
    (runs / "wild").mkdir()
    (runs / "wild" / "result.json").write_text(
        '{"schema_version": 1, "cells": [{"key": "a", "metrics": 3, "client": []}]}'
    )
    (runs / "deep").mkdir()
    (runs / "deep" / "plan.json").write_text("[" * 100_000)
    (runs / "bytes").mkdir()
    (runs / "bytes" / "plan.json").write_bytes(os.urandom(1000))
    (runs / "empty" / "cells").mkdir(parents=True)
    (runs / "file").write_text("no folder")
    (good / "cells" / "odd").mkdir()
    dashboard = serving(runs)
    listing = dashboard.ask("/")
    assert listing.status == 200
    for name in ("good", "torn", "wild", "deep", "bytes", "empty"):
        assert f'data-name="{name}"' in listing.text
        assert dashboard.ask(f"/runs/{name}").status == 200
        assert dashboard.ask(f"/runs/{name}/report").status in (200, 400)
    assert dashboard.ask("/compare?a=torn&b=good").status == 400
    assert dashboard.ask("/runs/good/report").status == 200


def test_a_folder_that_cannot_be_written_is_said_and_the_dashboard_goes_on(serving: Serving, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "demo", n=3)
    (tmp_path / "runs" / ".leakscope").write_text("a file where a folder should be")
    dashboard = serving(tmp_path / "runs")
    answer = dashboard.ask("/new", method="POST", body=b"name=x&attack=sme&n=2")
    assert answer.status == 500
    assert "exists" in answer.text
    assert dashboard.ask("/").status == 200
