"""HttpServer and HallServer: uvicorn.Server that checks timeouts once a second and shuts down gracefully."""

import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from toolhall.app import Toolhall
from toolhall.server.context import ServedApp, ServerConfig, ServerContext
from toolhall.server.protocol import HttpProtocol
from toolhall.server.websocket_protocol import WebSocketProtocol

_GC_THRESHOLD = (3_000, 10, 10)  # nearly all of a call's leavings go by themselves: looking for cycles can wait
_TIMEOUT_CHECK_TICKS = 10  # of uvicorn's, ten a second


class HttpServer(uvicorn.Server):
    """Stops when it is told to, with what runs finished."""

    def __init__(self, served: ServedApp, context: ServerContext | None = None) -> None:
        self._context = context or ServerContext(served)
        super().__init__(ServerConfig(served, self._context, HttpProtocol, WebSocketProtocol))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        gc.freeze()  # what is there now stays: the collector need not look through it with every call's leavings
        gc.set_threshold(*_GC_THRESHOLD)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what runs finish."""
        self._close_incomplete_requests()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; once, every connection is looked at."""
        if counter % _TIMEOUT_CHECK_TICKS == 0:
            self.check_timeouts()
        return await super().on_tick(counter)

    def check_timeouts(self) -> None:
        """End the connections that have kept us waiting for too long."""
        now = self._context.clock()
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpProtocol | WebSocketProtocol):
                connection.check_timeouts(now)

    def _close_incomplete_requests(self) -> None:
        """A client that never sends the rest of its body must not hold up the end either."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and cycle.more_body:
                connection.transport.close()

    def stop(self) -> None:
        """Stop at the next tick, gracefully."""
        self.should_exit = True


class HallServer(HttpServer):
    """Serves a hall; stops on SIGINT and SIGTERM, and the process then ends with code 0."""

    def __init__(
        self,
        hall: Toolhall,
        on_start: Callable[["HallServer"], None] | None = None,
        context: ServerContext | None = None,
    ) -> None:
        self._hall = hall
        self._on_start = on_start
        super().__init__(hall, context)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then say so; raises LifespanFailed, of which uvicorn would only write a log."""
        if sockets:  # links to the hall's pages begin with where it listens
            self._hall.approval_components.public_url.port = sockets[0].getsockname()[1]
        await self._hall.open()
        await super().startup(sockets)
        if self._on_start:
            self._on_start(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """A stream that stays open would hold up the end, so clients are told first."""
        self._hall.end_streams()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop; a second Ctrl+C does not wait. uvicorn would also raise the signal again, which ends with its code."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
