"""Server-sent events: `EventStream`, a bounded buffer of messages that can be resumed, and its SSE encoding.

An `EventStream` is written by one call and read by one connection at a time. A slow reader loses notifications,
never the final response. Event ids begin with a random name, so that no other stream's ids can be derived from one.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from toolhall.http.request import HttpRequest

MAX_BUFFERED = 256
MAX_BUFFERED_BYTES = 256 * 1024  # of notices: an answer is kept whatever its size
KEEP_ALIVE_SECONDS = 15.0
_SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # proxies must pass events on as they come
)
PermissionCheck: TypeAlias = Callable[[], Awaitable[bool]]


class StreamItem(msgspec.Struct, frozen=True):
    """One message and its place in the stream; an empty one says only that the stream lives."""

    number: int
    message: bytes


class EventStream:
    """Written by one call, read by one connection at a time; a slow reader loses notices, never the answer."""

    def __init__(self) -> None:
        self._name = ""
        self.finished = False
        self.retry_ms: int | None = None
        self._items: deque[StreamItem] = deque(maxlen=MAX_BUFFERED)
        self.buffered_bytes = 0
        self.last_number = 0
        self._changed = asyncio.Event()
        self._disconnects = 0

    @property
    def name(self) -> str:
        """What the ids of its events start with: random, so that no other stream's ids can be derived from one.

        It is made when it is first asked for: most calls are answered by a plain reply, which has no event ids.
        """
        if not self._name:
            self._name = secrets.token_hex(16)
        return self._name

    def has_name(self, name: str) -> bool:
        """Whether this is its name; a stream that never needed one has none."""
        return bool(self._name) and secrets.compare_digest(self._name.encode(), name.encode())

    def send(self, message: bytes) -> None:
        """Add a message."""
        if self.finished:
            return
        self.last_number += 1
        self.buffered_bytes += len(message)
        while self._items and (len(self._items) >= MAX_BUFFERED or self.buffered_bytes > MAX_BUFFERED_BYTES):
            self.buffered_bytes -= len(self._items.popleft().message)
        self._items.append(StreamItem(self.last_number, message))
        self._changed.set()

    def finish(self, answer: bytes | None = None) -> None:
        """Add the answer, if there is one, and end."""
        if answer is not None:
            self.send(answer)
        self.finished = True
        self._changed.set()

    def disconnect_reader(self, retry_ms: int) -> None:
        """Send the present reader away; it may come back after this time."""
        self.retry_ms = retry_ms
        self._disconnects += 1
        self._changed.set()

    @property
    def has_only_answer(self) -> bool:
        """Nothing but the answer has been sent, and no reader was sent away: a plain reply will do."""
        return self.finished and self.last_number <= 1 and not self._disconnects

    async def wait_until_started(self) -> None:
        """Wait until there is something to send, or nothing more will come."""
        while not (self._items or self.finished or self._disconnects):
            await self._wait(None)

    async def read(self, after: int = 0, *, resumed: bool = False) -> AsyncGenerator[StreamItem, None]:
        """Messages after this place, as they come; an empty item when there was none for a while."""
        seen = self._disconnects if resumed else 0
        while True:
            for item in [item for item in self._items if item.number > after]:
                after = item.number
                yield item
            if self.last_number > after:
                continue  # more came while these were written; to wait now would be to miss it
            if self.finished or self._disconnects > seen:
                return
            if not await self._wait(KEEP_ALIVE_SECONDS):
                yield StreamItem(after, b"")

    async def _wait(self, seconds: float | None) -> bool:
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


class ResumePoint(msgspec.Struct, frozen=True):
    """From where a stream is read, and what its event ids start with (empty: events have no ids)."""

    id_prefix: str = ""
    after: int = 0
    resumed: bool = False


FROM_START = ResumePoint()


async def start_events(request: HttpRequest) -> None:
    """Begin a reply that is a stream of events."""
    await request.send_headers(200, _SSE_HEADERS)


async def write_events(
    request: HttpRequest,
    stream: EventStream,
    resume_point: ResumePoint = FROM_START,
    *,
    is_permitted: PermissionCheck | None = None,
) -> None:
    """Write every message as an event, then end the reply; `permitted` is asked before each one and ends it early."""
    async with aclosing(stream.read(resume_point.after, resumed=resume_point.resumed)) as items:
        async for item in items:
            if is_permitted is not None and not await is_permitted():
                break
            await request.send_body(
                _format_event(item, resume_point.id_prefix) if item.message else b": keep-alive\n\n", more=True
            )
    # MCP 2025-11-25: who closes a connection before its stream has ended SHOULD say when to come back.
    sent_away = stream.retry_ms is not None and not stream.finished
    await request.send_body(f"retry: {stream.retry_ms}\n\n".encode() if sent_away else b"", more=False)


async def serve_events(
    request: HttpRequest,
    stream: EventStream,
    resume_point: ResumePoint = FROM_START,
    *,
    is_permitted: PermissionCheck | None = None,
) -> None:
    """Write events until the stream ends or the client hangs up."""
    writing = write_events(request, stream, resume_point, is_permitted=is_permitted)
    tasks = [asyncio.create_task(writing), asyncio.create_task(wait_for_disconnect(request))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_disconnect(request: HttpRequest) -> None:
    """Return once the client is gone, or the reply is complete."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def priming_event(event_id: str, retry_ms: int | None) -> bytes:
    """An event without data, by whose id a client can resume before it has seen any message."""
    retry = f"retry: {retry_ms}\n" if retry_ms is not None else ""
    return f"id: {event_id}\n{retry}data: \n\n".encode()


def _format_event(item: StreamItem, id_prefix: str) -> bytes:
    event_id = f"id: {id_prefix}{item.number}\n".encode() if id_prefix else b""
    return b"event: message\n" + event_id + b"data: " + item.message + b"\n\n"
