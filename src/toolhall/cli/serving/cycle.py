"""One request and its reply: uvicorn's, with the usual case made short.

A reply that is there whole goes out in one piece, and a body that came whole is handed over without waiting for it.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from toolhall.cli.serving.outbox import Outbox
from toolhall.transports.exchange import OWN

Message: TypeAlias = Any  # uvicorn's ASGI types are not ours
App: TypeAlias = Any
_LENGTH = b"content-length"
PAUSE_SECONDS = 0.25  # for a connection that was turned away: it was told to come back later, and some do not listen


class Signal:
    """An event that costs next to nothing until somebody waits for it."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Event | None = None

    def set(self) -> None:
        """Whoever waits goes on."""
        self._is_set = True
        if self._waiter is not None:
            self._waiter.set()

    def clear(self) -> None:
        """From now on there is something to wait for."""
        self._is_set = False
        if self._waiter is not None:
            self._waiter.clear()

    async def wait(self) -> None:
        """Go on once it is set."""
        if not self._is_set:
            if self._waiter is None:
                self._waiter = asyncio.Event()
            await self._waiter.wait()


class Opening:
    """The lines that every reply of this server begins with, put together once for as long as they are the same."""

    __slots__ = ("_headers", "_lines")

    def __init__(self) -> None:
        self._headers: object = None
        self._lines = b""

    def lines(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """These headers as lines."""
        if headers is not self._headers:
            self._headers, self._lines = headers, _lines(headers)
        return self._lines


class Cycle(RequestResponseCycle):
    """Relies on uvicorn's own parts by name; what is not the usual case is left to it."""

    opening = Opening()
    _head: bytes | None = None  # of a reply whose body is about to follow
    _ready: bytes | None = None  # a whole reply that has not gone out yet
    _taken = False  # whether the body was handed over: whoever asks again waits for the client to go
    _gone: Callable[[], None] | None = None  # whom to tell that the client is gone
    tasks: set[asyncio.Task[None]]  # those of the server, which waits for them when it stops
    task: asyncio.Task[None]

    # How every request begins; said once for all of them.
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def __init__(self, connection: HttpToolsProtocol, outbox: Outbox, *, keep_alive: bool) -> None:
        """In place of uvicorn's, which is told each thing by its name."""
        self.scope = connection.scope
        self.loop = connection.loop
        self.outbox = outbox
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.access_logger = connection.access_logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.waiting_for_100_continue = connection.expect_100_continue
        self.keep_alive = keep_alive
        self.message_event = Signal()  # type: ignore[assignment] # all that is asked of an event
        self.body = bytearray()

    async def run_asgi(self, app: App) -> None:
        """Let the application answer; what does not end as usual is left to uvicorn."""
        failed: BaseException | None = None
        scope: dict[str, Any] = self.scope  # type: ignore[assignment] # with a word more than ASGI has
        scope[OWN] = self  # for who knows us
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - uvicorn's to judge
            failed = error
        if failed is not None and self._ready is not None:
            self.go()  # what was said before it failed was said
        if failed is not None or not (self.response_complete or self._ready):
            await super().run_asgi(_Ended(failed))
        if self.response_complete:
            self.on_response = _nothing
        scope.pop(OWN, None)  # which leads back here: nothing of a request is left to the garbage collector
        self.tasks.discard(self.task)  # a callback would cost a turn of the loop for each request

    def whole(self, status: int, lines: bytes, body: bytes) -> bool:
        """Send a whole reply, if nothing about it is unusual; `lines` are its headers, in our own words."""
        unusual = self.response_started or self.flow.write_paused or self.disconnected or not self.keep_alive
        if unusual or self.scope["method"] == "HEAD":
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        opening = self.opening.lines(self.default_headers)
        self._ready = b"%s%s%s\r\n%s" % (STATUS_LINE[status], opening, lines, body)
        if self.more_body or len(self.tasks) == 1:  # nobody else has anything to send
            self.go()
        else:
            self.outbox.put(self, self.loop)
        return True

    def watch(self, gone: Callable[[], None] | None) -> None:
        """Call this once the client is gone; None: no longer."""
        self._gone = gone
        if gone is None:
            return
        if self.disconnected:
            self.loop.call_soon(self.lose)
        else:
            self.flow.resume_reading()  # else nobody would see it go

    def rest(self) -> None:
        """Read nothing more for a moment, once the reply that is ready has gone out."""
        self.loop.call_soon(self._pause)

    def _pause(self) -> None:
        if not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(PAUSE_SECONDS, self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def lose(self) -> None:
        """The client is gone."""
        self.disconnected = True
        self.message_event.set()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def go(self) -> None:
        """Send the whole reply that is ready."""
        reply, self._ready = self._ready, None
        on_response, self.on_response = self.on_response, _nothing
        self.response_complete = True
        self.message_event.set()
        if self.disconnected or self.transport.is_closing() or reply is None:
            return
        self.transport.write(reply)
        on_response()
        if not self.keep_alive:  # the server has begun to stop
            self.transport.close()

    async def receive(self) -> Message:
        """The body; at once, where it has come whole."""
        if (
            self.more_body
            or self.waiting_for_100_continue
            or self.disconnected
            or self.response_complete
            or self._taken
        ):
            return await super().receive()
        self._taken = True
        self.message_event.clear()
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def send(self, message: Message) -> None:
        """A part of the reply; the head of one that is there whole waits for its body, and both go out together."""
        if self._head is not None:
            self._finish(message)
        elif self.response_started or self.flow.write_paused or self.disconnected or not self._is_whole(message):
            await super().send(message)

    def _is_whole(self, message: Message) -> bool:
        """Whether a reply states its length and nothing unusual, so that all of it can be written at once."""
        headers = message.get("headers", ())
        if message["type"] != "http.response.start" or self.scope["method"] == "HEAD" or not self.keep_alive:
            return False
        length = next((value for name, value in headers if name == _LENGTH), None)
        lines = _lines(headers)
        # One line for each header, and none of them about the connection: anything else is uvicorn's to judge.
        if length is None or lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
            return False
        if b"\nconnection:" in lines or lines.startswith(b"connection:"):
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = int(length)
        self._head = b"%s%s%s\r\n" % (STATUS_LINE[message["status"]], self.opening.lines(self.default_headers), lines)
        return True

    def _finish(self, message: Message) -> None:
        head, body = self._head or b"", message.get("body", b"")
        self._head = None
        if (
            message["type"] != "http.response.body"
            or message.get("more_body")
            or len(body) != self.expected_content_length
        ):
            self.transport.close()
            raise RuntimeError("a reply is other than its head says")
        self.response_complete = True
        if self.disconnected:
            return
        self.transport.write(head + body)
        self.message_event.set()
        self.on_response()


class _Ended:
    """What became of an application, for uvicorn to say something about."""

    def __init__(self, failed: BaseException | None) -> None:
        self._failed = failed

    async def __call__(self, *_: object) -> None:
        if self._failed is not None:
            raise self._failed


def _nothing() -> None:
    """The reply is out, and nobody needs to hear of it again."""


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % pair for pair in headers])
