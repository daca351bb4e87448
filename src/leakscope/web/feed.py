"""Server-sent events: one look at the files for all who watch the same thing, and to each only what it has not seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio.to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

LOOK_EVERY = 0.7
HEARTBEAT = 15.0
MOST_STREAMS = 256

Source = Callable[[], Mapping[str, Mapping[str, Any]]]
"""The whole state as entries by name; called in a thread."""


class FullError(Exception):
    """As many streams as this server keeps are open."""


class Feed:
    """Entries with the version in which each last changed. Slow readers cost nothing: they skip versions."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.version = 0
        self.entries: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self.changed = asyncio.Condition()
        self.readers = 0
        self.task: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Compare the state with the last one and wake the readers where something differs."""
        now = await anyio.to_thread.run_sync(self.source)
        fresh = {name: entry for name, entry in now.items() if self.entries.get(name, (0, None))[1] != entry}
        gone = self.entries.keys() - now.keys()
        if fresh or gone:
            self.version += 1
            self.entries = {name: self.entries[name] for name in self.entries.keys() & now.keys()}
            self.entries |= {name: (self.version, entry) for name, entry in fresh.items()}
            async with self.changed:
                self.changed.notify_all()

    async def keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def read(self) -> AsyncIterator[str]:
        """The state, then every change, as text of an event stream."""
        seen = -1
        while True:
            fresh = [entry for version, entry in self.entries.values() if version > seen]
            if self.version > seen:
                data = {"names": list(self.entries), "entries": fresh}
                yield f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
            else:
                yield ": still here\n\n"
            seen = self.version
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT), self.changed:
                    await self.changed.wait_for(lambda: self.version > seen)  # noqa: B023


class Feeds:
    """The feeds that somebody reads."""

    def __init__(self) -> None:
        self.open: dict[str, Feed] = {}
        self.streams = 0

    @asynccontextmanager
    async def reading(self, name: str, source: Source) -> AsyncIterator[Feed]:
        """Join the feed of that name, or start it; the last to leave stops it."""
        feed = self.open.setdefault(name, Feed(source))
        feed.readers += 1
        try:
            if feed.task is None:
                await feed.look()
                feed.task = feed.task or asyncio.create_task(feed.keep_looking())
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                self.open.pop(name, None)
                if feed.task is not None:
                    feed.task.cancel()

    def stream(self, name: str, source: Source) -> EventStream:
        """The feed of that name as a response; one too many is refused."""
        if self.streams >= MOST_STREAMS:
            raise FullError
        self.streams += 1
        return EventStream(self, name, source)


class EventStream(StreamingResponse):
    """A response that gives its place back however it ends."""

    def __init__(self, feeds: Feeds, name: str, source: Source) -> None:
        self.feeds = feeds
        self.events = self._events(name, source)
        super().__init__(self.events, media_type="text/event-stream")

    async def _events(self, name: str, source: Source) -> AsyncGenerator[str, None]:
        async with self.feeds.reading(name, source) as feed:
            async for text in feed.read():
                yield text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.feeds.streams -= 1
            await self.events.aclose()
