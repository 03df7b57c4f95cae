"""ToolServerProcess: joins a hall as its tool server over HTTP or WebSocket, and leaves it on shutdown."""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from toolhall.dialects.hub.lease_messages import (
    HubRefusal,
    JoinResult,
    ToolServerEndpoint,
    write_join,
)
from toolhall.server.context import ConnectionTimeouts, ServerContext
from toolhall.server.server import HttpServer
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.http import ToolServerApp
from toolhall.toolserver.hub_websocket import WebSocketHubClient, open_hub_socket
from toolhall.toolserver.lease import HttpHubClient, HubClient, HubUnavailable, LeaseClient, unavailable_from_refusal

# A hall keeps its connections for the next call: only one that has long forgotten us is closed from here.
_TIMEOUTS = ConnectionTimeouts(first_byte=120.0, keep_alive=120.0)


class JoinOptions(msgspec.Struct, frozen=True):
    """Whom to run tools for, under which name, and how large a message may be."""

    hall: str
    key: str
    name: str
    max_body_bytes: int

    @property
    def max_frame_bytes(self) -> int:
        """Of a WebSocket, which nobody opens to a tool server."""
        return self.max_body_bytes

    @property
    def access_log(self) -> bool:
        """The hall logs what it asks of its tool servers."""
        return False

    def __repr__(self) -> str:
        return f"JoinOptions({self.hall!r})"


class ShutdownSignal:
    """What a signal sets: first to end in order, then to end at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.forced = asyncio.Event()

    def __call__(self) -> None:
        """Stop."""
        (self.forced if self.requested.is_set() else self.requested).set()

    @contextlib.contextmanager
    def on_signals(self) -> Any:
        """Meanwhile SIGINT and SIGTERM stop."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        if sys.platform == "win32":
            yield
            return
        for number in signals:
            loop.add_signal_handler(number, self)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


class ServedToolServer(NamedTuple):
    """A tool server and its sizes, as a server sees them."""

    http: ToolServerApp
    config: JoinOptions


class EmbeddedServer(HttpServer):
    """Hears no signals itself: the hall is told first."""

    def capture_signals(self) -> Any:
        """Nothing."""
        return contextlib.nullcontext()


class ToolServerProcess:
    """One start of a tool server; `announce` hears once that it has joined."""

    def __init__(self, handler: CallHandler, options: JoinOptions, announce: Callable[[JoinResult], None]) -> None:
        self._handler = handler
        self._options = options
        self._announce = announce
        self._stop = ShutdownSignal()
        self._hall: HubClient | None = None  # as far as it can be asked now

    async def serve_http(self, listening: socket.socket, advertised: str) -> None:
        """Listen for the hall's calls until told to stop."""
        place = ToolServerEndpoint(advertised, secrets.token_urlsafe(32))
        app = ToolServerApp(self._handler, place.token, self._options.max_body_bytes)
        served = ServedToolServer(app, self._options)
        server = EmbeddedServer(served, ServerContext(served, timeouts=_TIMEOUTS))
        hall = HttpHubClient(self._options.hall, self._options.key)
        with self._stop.on_signals():
            serving = asyncio.create_task(server.serve([listening]))
            self._hall = hall
            try:
                await self._keep_joined(self._new_lease(place), lambda joining: joining.run(hall))
            finally:
                server.stop()
                await _wait_first(serving, self._stop.forced.wait())
                server.force_exit = not serving.done()
                await serving
                await hall.close()
                await self._handler.close()

    async def serve_websocket(self) -> None:
        """Be called over a socket to the hall until told to stop."""
        with self._stop.on_signals():
            try:
                await self._keep_joined(self._new_lease(None), self._keep_websocket)
            finally:
                await self._handler.close()

    def _new_lease(self, place: ToolServerEndpoint | None) -> LeaseClient:
        declared = write_join(self._options.name, secrets.token_hex(16), self._handler.declarations, place)
        return LeaseClient(declared, self._status)

    async def _status(self) -> str:
        return str((await self._handler.health())["status"])

    async def _keep_websocket(self, joining: LeaseClient) -> None:
        async with open_hub_socket(
            self._options.hall, self._options.key, self._handler, self._options.max_body_bytes
        ) as hall:
            self._hall = hall
            try:
                await _serve_and_keep(hall, joining)
            finally:
                self._hall = None

    async def _keep_joined(self, lease: LeaseClient, keep: Callable[[LeaseClient], Awaitable[None]]) -> None:
        await self._handler.open()
        keeping = asyncio.create_task(_rejoin_forever(lease, keep))
        announcing = asyncio.create_task(self._announce_joined(lease))
        try:
            await _wait_first(keeping, self._stop.requested.wait())
            if keeping.done():
                await keeping
            self._handler.drain()
            if self._hall is not None:
                leaving = asyncio.create_task(lease.leave(self._hall))
                await _wait_first(leaving, self._stop.forced.wait())
                await _cancel_and_wait(leaving)
        finally:
            await _cancel_and_wait(keeping, announcing)

    async def _announce_joined(self, joining: LeaseClient) -> None:
        await joining.joined.wait()
        if joining.granted is not None:
            self._announce(joining.granted)


async def _rejoin_forever(lease: LeaseClient, keep: Callable[[LeaseClient], Awaitable[None]]) -> None:
    """For ever, however often the hall goes away; a no counts only where it is the very first answer.

    Later something else may answer in the hall's place for a moment.
    """
    while True:
        try:
            await keep(lease)
        except HubUnavailable as away:
            await lease.back_off(away)
        except HubRefusal as refused:
            if not lease.joined.is_set():
                raise
            await lease.back_off(unavailable_from_refusal(refused))


async def _serve_and_keep(hall: WebSocketHubClient, lease: LeaseClient) -> None:
    """Stay joined as long as the socket is open; another lease on the same socket goes on with the same calls."""
    serving = asyncio.create_task(hall.serve())
    try:
        while True:
            staying = asyncio.create_task(lease.run(hall))
            await _wait_first(serving, staying)
            if not staying.cancelled():
                await staying  # also where the socket was closed after that: it may hold the hall's words
            if serving.done():
                raise HubUnavailable("the socket was closed")
    finally:
        await _cancel_and_wait(serving)


async def _wait_first(main: "asyncio.Task[None]", other: "asyncio.Task[None] | Coroutine[Any, Any, Any]") -> None:
    """Wait for one of the two; the other, if it is the second, is ended, and what it raised is known."""
    second = other if isinstance(other, asyncio.Task) else asyncio.create_task(other)
    try:
        await asyncio.wait({main, second}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel_and_wait(second)


async def _cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
