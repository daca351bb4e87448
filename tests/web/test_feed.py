"""Event streams: what changes is told, two hundred watchers cost one look, and those who leave leave nothing behind."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from leakscope.web import feed
from sample_run import write_run

Serving = Callable[..., Any]


class Stream:
    """A raw event stream."""

    def __init__(self, server: Any, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        headers = "".join(f"{name}: {value}\r\n" for name, value in server.own.items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def next(self) -> dict[str, Any]:
        """The next message; heartbeats are passed over."""
        while not (line := self.file.readline()).startswith(b"data: "):
            assert line, "the stream ended"
        message: dict[str, Any] = json.loads(line[6:])
        return message

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def watching(server: Any, path: str) -> Iterator[Stream]:
    stream = Stream(server, path)
    try:
        yield stream
    finally:
        stream.close()


def states(stream: Stream) -> Iterator[str]:
    """What the stream says of its run, message by message."""
    while True:
        yield from (entry["state"] for entry in stream.next()["entries"] if entry["key"] == "run")


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "demo", attacks=("ig", "sme"), n=3, finished=False)
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "HEARTBEAT", 0.5)
    monkeypatch.setattr(feed, "LOOK_EVERY", 0.1)


def test_the_first_message_is_everything_and_the_next_is_what_changed(serving: Serving, runs: Path) -> None:
    server = serving(runs)
    keys = sorted(path.name for path in (runs / "demo" / "cells").iterdir())
    with watching(server, "/runs/demo/events") as stream:
        first = stream.next()
        assert sorted(first["names"]) == sorted(["run", *keys])
        assert len(first["entries"]) == 3
        event = {"event": "progress", "time": time.time(), "iteration": 7, "iterations": 9, "psnr": 3.5, "worker": 1}
        with (runs / "demo" / "cells" / keys[0] / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        changed = {entry["key"]: entry for entry in stream.next()["entries"]}
        assert changed[keys[0]]["iteration"] == 7
        assert keys[1] not in changed


def test_a_new_run_appears_in_the_list(serving: Serving, runs: Path) -> None:
    with watching(serving(runs), "/events") as stream:
        assert stream.next()["names"] == ["demo"]
        write_run(runs / "second", n=3)
        assert set(stream.next()["names"]) == {"demo", "second"}


def test_a_run_that_breaks_while_it_is_watched_is_reported(serving: Serving, runs: Path) -> None:
    with watching(serving(runs), "/runs/demo/events") as stream:
        stream.next()
        (runs / "demo" / "plan.json").write_text("{")
        assert "broken" in states(stream)


def test_two_hundred_streams_at_once(serving: Serving, runs: Path) -> None:
    server = serving(runs)
    with ExitStack() as stack:
        streams = [stack.enter_context(watching(server, "/runs/demo/events")) for _ in range(200)]
        assert all(stream.status == 200 for stream in streams)
        assert all(len(stream.next()["entries"]) == 3 for stream in streams)
        assert len(server.board.feeds.open) == 1  # one look for all
        start = time.perf_counter()
        assert server.ask("/").status == 200
        assert time.perf_counter() - start < 2
        (runs / "demo" / "plan.json").write_text("{")
        assert all(stream.next()["entries"] for stream in streams)
    until(lambda: server.board.feeds.streams == 0)
    assert server.board.feeds.open == {}


def test_one_stream_too_many_is_refused(serving: Serving, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_STREAMS", 2)
    server = serving(runs)
    with watching(server, "/events"), watching(server, "/events"):
        answer = server.ask("/events")
        assert answer.status == 503
        assert answer.headers["retry-after"]
    until(lambda: server.board.feeds.streams == 0)
    with watching(server, "/events") as stream:
        assert stream.status == 200


def test_a_watcher_who_never_reads_holds_up_nobody(serving: Serving, runs: Path) -> None:
    server = serving(runs)
    with watching(server, "/events"), watching(server, "/events") as reader:
        reader.next()
        for place in range(5):
            write_run(runs / f"more{place}", n=3)
            assert any(reader.next()["entries"] for _ in range(10))  # the folder may be seen before what is in it
