"""ToolServerProcess: joins a hall as its tool server over HTTP or WebSocket, and leaves it on shutdown.

Theory of operation. A tool server holds a lease at the hall (`toolserver.lease`) and renews it. Over HTTP it listens
and the hall calls it; over WebSocket it opens one connection to the hall and is called over that. If the hall cannot
be reached, it joins again with back-off, for ever; only a refusal that is the hall's very first answer ends the
process. On SIGINT or SIGTERM it stops taking calls, leaves the hall, finishes the calls in progress and exits; a
second signal ends these waits.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from toolhall.dialects.hub.lease_messages import HubRefusal, JoinResult, ToolServerEndpoint, write_join
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionTimeouts
from toolhall.server.server import HttpServer
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.http import ToolServerApp
from toolhall.toolserver.hub_websocket import WebSocketHubClient, open_hub_socket
from toolhall.toolserver.lease import HttpHubClient, HubClient, HubUnavailable, LeaseClient, unavailable_from_refusal

# The hall keeps connections open for its next call, so only one that it has long abandoned is closed from this side.
_TIMEOUTS = ConnectionTimeouts(first_byte=120.0, keep_alive=120.0)


class JoinOptions(msgspec.Struct, frozen=True):
    """The hall to join, the key for it, the name to join under, and the size limit of messages."""

    hall: str
    key: str
    name: str
    max_body_bytes: int

    @property
    def max_frame_bytes(self) -> int:
        """Required by SizeLimits; a tool server accepts no WebSocket."""
        return self.max_body_bytes

    @property
    def access_log(self) -> bool:
        """Off: the hall logs the calls of its tool servers."""
        return False

    def __repr__(self) -> str:
        return f"JoinOptions({self.hall!r})"


class ShutdownSignal:
    """The shutdown state: the first signal requests a graceful shutdown, the second forces it."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.forced = asyncio.Event()

    def __call__(self) -> None:
        """Request the shutdown, or force it if it was requested before."""
        (self.forced if self.requested.is_set() else self.requested).set()

    @contextlib.contextmanager
    def on_signals(self) -> Any:
        """Context in which SIGINT and SIGTERM call this object."""
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
    """A tool server with its settings, as HttpServer takes them."""

    http: ToolServerApp
    config: JoinOptions


class EmbeddedServer(HttpServer):
    """An HttpServer without signal handlers: ToolServerProcess handles signals, to leave the hall first."""

    def capture_signals(self) -> Any:
        """Install no signal handlers."""
        return contextlib.nullcontext()


class ToolServerProcess:
    """Runs a tool server until a signal; `announce` is called once, when it has joined."""

    def __init__(self, handler: CallHandler, options: JoinOptions, announce: Callable[[JoinResult], None]) -> None:
        self._handler = handler
        self._options = options
        self._announce = announce
        self._stop = ShutdownSignal()
        self._hall: HubClient | None = None  # None while it is not connected

    async def serve_http(self, listening: socket.socket, advertised: str) -> None:
        """Join the hall and serve its calls over HTTP until a signal comes."""
        endpoint = ToolServerEndpoint(advertised, secrets.token_urlsafe(32))
        app = ToolServerApp(self._handler, endpoint.token, self._options.max_body_bytes)
        served = ServedToolServer(app, self._options)
        server = EmbeddedServer(served, ServerContext(served, timeouts=_TIMEOUTS))
        hall = HttpHubClient(self._options.hall, self._options.key)
        with self._stop.on_signals():
            serving = asyncio.create_task(server.serve([listening]))
            self._hall = hall
            try:
                await self._keep_joined(self._new_lease(endpoint), lambda lease: lease.run(hall))
            finally:
                server.stop()
                await _wait_first(serving, self._stop.forced.wait())
                if not serving.done():
                    server.stop_now()
                await serving
                await hall.close()
                await self._handler.close()

    async def serve_websocket(self) -> None:
        """Join the hall over a WebSocket and serve its calls on it until a signal comes."""
        with self._stop.on_signals():
            try:
                await self._keep_joined(self._new_lease(None), self._keep_websocket)
            finally:
                await self._handler.close()

    def _new_lease(self, endpoint: ToolServerEndpoint | None) -> LeaseClient:
        join = write_join(self._options.name, secrets.token_hex(16), self._handler.declarations, endpoint)
        return LeaseClient(join, self._status)

    async def _status(self) -> str:
        return str((await self._handler.health())["status"])

    async def _keep_websocket(self, lease: LeaseClient) -> None:
        async with open_hub_socket(
            self._options.hall, self._options.key, self._handler, self._options.max_body_bytes
        ) as hall:
            self._hall = hall
            try:
                await _serve_and_keep(hall, lease)
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

    async def _announce_joined(self, lease: LeaseClient) -> None:
        await lease.joined.wait()
        if lease.granted is not None:
            self._announce(lease.granted)


async def _rejoin_forever(lease: LeaseClient, keep: Callable[[LeaseClient], Awaitable[None]]) -> None:
    """Keep joined, and join again with back-off whenever the hall is unavailable.

    Raises HubRefusal only for a refusal before the first join: later ones may come from something else that answers
    at the hall's address for a moment, such as a proxy.
    """
    while True:
        try:
            await keep(lease)
        except HubUnavailable as unavailable:
            await lease.back_off(unavailable)
        except HubRefusal as refused:
            if not lease.joined.is_set():
                raise
            await lease.back_off(unavailable_from_refusal(refused))


async def _serve_and_keep(hall: WebSocketHubClient, lease: LeaseClient) -> None:
    """Stay joined while the socket is open; a new lease on the same socket continues the same calls."""
    serving = asyncio.create_task(hall.serve())
    try:
        while True:
            keeping = asyncio.create_task(lease.run(hall))
            await _wait_first(serving, keeping)
            if not keeping.cancelled():
                await keeping  # also after the socket was closed: it may raise the hall's refusal
            if serving.done():
                raise HubUnavailable("the socket was closed")
    finally:
        await _cancel_and_wait(serving)


async def _wait_first(main: "asyncio.Task[None]", other: "asyncio.Task[None] | Coroutine[Any, Any, Any]") -> None:
    """Wait until one of the two is done; the second is cancelled and awaited in any case."""
    second = other if isinstance(other, asyncio.Task) else asyncio.create_task(other)
    try:
        await asyncio.wait({main, second}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel_and_wait(second)


async def _cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
