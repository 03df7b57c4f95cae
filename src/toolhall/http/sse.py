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
MAX_BUFFERED_BYTES = 256 * 1024  # of notifications: the final response is kept whatever its size
KEEP_ALIVE_SECONDS = 15.0
_SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # nginx must not buffer events
)
PermissionCheck: TypeAlias = Callable[[], Awaitable[bool]]


class StreamItem(msgspec.Struct, frozen=True):
    """A message with its number in the stream; an empty message is a keep-alive."""

    number: int
    message: bytes


class EventStream:
    """A bounded message buffer, written by one call and read by one connection at a time; see the module docstring."""

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
        """The prefix of its event ids, random so that no other stream's ids can be derived from it.

        It is made on first use: most calls get a plain response, which has no event ids.
        """
        if not self._name:
            self._name = secrets.token_hex(16)
        return self._name

    def has_name(self, name: str) -> bool:
        """Whether this is its name, compared in constant time; a stream without event ids has none."""
        return bool(self._name) and secrets.compare_digest(self._name.encode(), name.encode())

    def send(self, message: bytes) -> None:
        """Append a message; the oldest are dropped when the buffer is full."""
        if self.finished:
            return
        self.last_number += 1
        self.buffered_bytes += len(message)
        while self._items and (len(self._items) >= MAX_BUFFERED or self.buffered_bytes > MAX_BUFFERED_BYTES):
            self.buffered_bytes -= len(self._items.popleft().message)
        self._items.append(StreamItem(self.last_number, message))
        self._changed.set()

    def finish(self, answer: bytes | None = None) -> None:
        """Append the final response, if any, and end the stream."""
        if answer is not None:
            self.send(answer)
        self.finished = True
        self._changed.set()

    def disconnect_reader(self, retry_ms: int) -> None:
        """End the current connection; the client may resume after this time."""
        self.retry_ms = retry_ms
        self._disconnects += 1
        self._changed.set()

    @property
    def has_only_answer(self) -> bool:
        """Whether the final response is the only message so far, so that a plain response suffices."""
        return self.finished and self.last_number <= 1 and not self._disconnects

    async def wait_until_started(self) -> None:
        """Wait until there is a message to send, or the stream has ended."""
        while not (self._items or self.finished or self._disconnects):
            await self._wait(None)

    async def read(self, after: int = 0, *, resumed: bool = False) -> AsyncGenerator[StreamItem, None]:
        """Yield messages after this number as they come, and an empty item after 15 seconds without one."""
        seen = self._disconnects if resumed else 0
        while True:
            for item in [item for item in self._items if item.number > after]:
                after = item.number
                yield item
            if self.last_number > after:
                continue  # more came while these were written; waiting now would miss it
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
    """Where a connection starts to read a stream, and the prefix of its event ids (empty: no ids)."""

    id_prefix: str = ""
    after: int = 0
    resumed: bool = False


FROM_START = ResumePoint()


async def start_events(request: HttpRequest) -> None:
    """Send the headers of an event stream."""
    await request.send_headers(200, _SSE_HEADERS)


async def write_events(
    request: HttpRequest,
    stream: EventStream,
    resume_point: ResumePoint = FROM_START,
    *,
    is_permitted: PermissionCheck | None = None,
) -> None:
    """Write every message as an event, then end the response; `is_permitted` is asked before each, and can end it."""
    async with aclosing(stream.read(resume_point.after, resumed=resume_point.resumed)) as items:
        async for item in items:
            if is_permitted is not None and not await is_permitted():
                break
            await request.send_body(
                _format_event(item, resume_point.id_prefix) if item.message else b": keep-alive\n\n", more=True
            )
    # MCP 2025-11-25: a server that closes a connection before the stream ends SHOULD send `retry`.
    disconnected = stream.retry_ms is not None and not stream.finished
    await request.send_body(f"retry: {stream.retry_ms}\n\n".encode() if disconnected else b"", more=False)


async def serve_events(
    request: HttpRequest,
    stream: EventStream,
    resume_point: ResumePoint = FROM_START,
    *,
    is_permitted: PermissionCheck | None = None,
) -> None:
    """Write events until the stream ends or the client disconnects."""
    writing = write_events(request, stream, resume_point, is_permitted=is_permitted)
    tasks = [asyncio.create_task(writing), asyncio.create_task(wait_for_disconnect(request))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_disconnect(request: HttpRequest) -> None:
    """Return when the client has disconnected, or the response is complete."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def priming_event(event_id: str, retry_ms: int | None) -> bytes:
    """Return an event without data, from whose id a client can resume before the first message."""
    retry = f"retry: {retry_ms}\n" if retry_ms is not None else ""
    return f"id: {event_id}\n{retry}data: \n\n".encode()


def _format_event(item: StreamItem, id_prefix: str) -> bytes:
    event_id = f"id: {id_prefix}{item.number}\n".encode() if id_prefix else b""
    return b"event: message\n" + event_id + b"data: " + item.message + b"\n\n"
