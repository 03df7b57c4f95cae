"""HttpServer and HallServer: accept connections, check their timeouts once a second, and stop gracefully.

Theory of operation. `serve` runs until `stop` or a signal. Then it closes the listening sockets, closes idle
connections and those whose request is incomplete, and waits for the requests in progress; after
SHUTDOWN_GRACE_SECONDS the rest is cancelled. `stop_now`, as a second SIGINT calls it, ends the wait at once.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType

from toolhall.app import Toolhall
from toolhall.server.context import ServedApp, ServerContext
from toolhall.server.process import new_event_loop
from toolhall.server.protocol import HttpProtocol
from toolhall.server.shared_socket import SharedSocketAcceptor

SHUTDOWN_GRACE_SECONDS = 25.0
_BACKLOG = 2_048
_TICK_SECONDS = 1.0
_POLL_SECONDS = 0.05  # while requests in progress end
_GC_THRESHOLD = (3_000, 10, 10)  # reference counting frees nearly all of a call's objects
_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform == "win32":
    _SIGNALS.append(signal.SIGBREAK)

_log = logging.getLogger("toolhall.http")


class HttpServer:
    """Serves an application on listening sockets; stops on SIGINT and SIGTERM, and finishes requests in progress.

    `shares_sockets` says that other processes accept from the same sockets.
    """

    def __init__(
        self, served: ServedApp, context: ServerContext | None = None, *, shares_sockets: bool = False
    ) -> None:
        self.context = context or ServerContext(served)
        self._shares_sockets = shares_sockets
        self.started = False  # accepts connections
        self._stop = asyncio.Event()
        self._is_forced = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._acceptors: list[asyncio.Server | SharedSocketAcceptor] = []

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve in an event loop of its own until a signal."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve on these sockets until `stop` or a signal; closes the sockets."""
        self._loop = asyncio.get_running_loop()
        with self.capture_signals():
            await self.startup(sockets)
            self._tick()
            await self._stop.wait()
            await self.shutdown(sockets)

    def stop(self) -> None:
        """Stop gracefully."""
        self._stop.set()

    def stop_now(self) -> None:
        """Stop without waiting for requests in progress."""
        self._is_forced = True
        self._stop.set()

    def new_connection(self) -> HttpProtocol:
        """The protocol of a new connection; must be called in the event loop."""
        return HttpProtocol(self.context)

    async def startup(self, sockets: list[socket.socket]) -> None:
        """Start to accept connections, with the garbage collector tuned for serving."""
        self.context.heads.set_date(time.time())
        loop = asyncio.get_running_loop()
        for each in sockets:
            if self._shares_sockets:
                self._acceptors.append(
                    SharedSocketAcceptor(each, self.new_connection, lambda: len(self.context.connections))
                )
            else:
                self._acceptors.append(await loop.create_server(self.new_connection, sock=each, backlog=_BACKLOG))
        self.started = True
        gc.freeze()  # what exists now stays; the collector need not traverse it again
        gc.set_threshold(*_GC_THRESHOLD)

    def _tick(self) -> None:
        """Renew the date and check the timeouts, once a second while the server runs."""
        if self._loop is None or self._loop.is_closed() or not self.started:
            return
        self.context.heads.set_date(time.time())
        self.check_timeouts()
        self._loop.call_later(_TICK_SECONDS, self._tick)

    def check_timeouts(self) -> None:
        """End the connections whose clients have exceeded a timeout."""
        now = self.context.clock()
        for connection in list(self.context.connections):
            connection.check_timeouts(now)

    async def shutdown(self, sockets: list[socket.socket]) -> None:
        """Accept nothing more, and finish requests in progress; a request whose body is incomplete is dropped."""
        context = self.context
        for acceptor in self._acceptors:
            acceptor.close()
        for each in sockets:
            each.close()
        for connection in list(context.connections):
            connection.shutdown()
        deadline = time.monotonic() + SHUTDOWN_GRACE_SECONDS
        # Polled: it happens once, and an event would cost every request.
        while (context.connections or context.tasks) and not self._is_forced and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        if context.tasks:
            _log.warning("%d requests were in progress when the server stopped, and were cancelled", len(context.tasks))
        for task in list(context.tasks):
            task.cancel()
        for connection in list(context.connections):
            connection.abort()
        self.started = False

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Context in which signals call `handle_signal`; only the main thread receives signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # Not `loop.add_signal_handler`, which cannot restore the handlers that were there before.
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as `signal` calls it
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.handle_signal, number)

    def handle_signal(self, number: int) -> None:
        """Stop gracefully; a second SIGINT stops at once."""
        if self._stop.is_set() and number == signal.SIGINT:
            self.stop_now()
        else:
            self.stop()


class HallServer(HttpServer):
    """Serves a hall, which it opens and closes."""

    def __init__(
        self,
        hall: Toolhall,
        on_start: Callable[["HallServer"], None] | None = None,
        context: ServerContext | None = None,
        *,
        shares_sockets: bool = False,
    ) -> None:
        self._hall = hall
        self._on_start = on_start
        super().__init__(hall, context, shares_sockets=shares_sockets)

    async def startup(self, sockets: list[socket.socket]) -> None:
        """Open the hall and start to accept, then call `on_start`.

        Raises LifespanFailed if a toolkit cannot be entered.
        """
        if sockets:  # links to the hall's pages begin with its own address
            self._hall.approval_components.public_url.port = sockets[0].getsockname()[1]
        await self._hall.open()
        await super().startup(sockets)
        if self._on_start:
            self._on_start(self)

    async def shutdown(self, sockets: list[socket.socket]) -> None:
        """End open event streams first, which would delay shutdown; then finish the other requests, and the hall."""
        self._hall.end_streams()
        await super().shutdown(sockets)
        if not self._is_forced:
            await self._hall.settle()
