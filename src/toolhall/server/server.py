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

_GC_THRESHOLD = (3_000, 10, 10)  # reference counting frees nearly all of a call's objects
_TIMEOUT_CHECK_TICKS = 10  # uvicorn ticks ten times a second


class HttpServer(uvicorn.Server):
    """uvicorn.Server with connection timeouts; on shutdown, requests in progress are finished."""

    def __init__(self, served: ServedApp, context: ServerContext | None = None) -> None:
        self._context = context or ServerContext(served)
        super().__init__(ServerConfig(served, self._context, HttpProtocol, WebSocketProtocol))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, with the garbage collector tuned for serving."""
        await super().startup(sockets)
        gc.freeze()  # what exists now stays; the collector need not traverse it again
        gc.set_threshold(*_GC_THRESHOLD)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish requests in progress; a request whose body is incomplete is dropped."""
        self._close_incomplete_requests()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; check the timeouts once a second."""
        if counter % _TIMEOUT_CHECK_TICKS == 0:
            self.check_timeouts()
        return await super().on_tick(counter)

    def check_timeouts(self) -> None:
        """End the connections whose clients have exceeded a timeout."""
        now = self._context.clock()
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpProtocol | WebSocketProtocol):
                connection.check_timeouts(now)

    def _close_incomplete_requests(self) -> None:
        """Close connections whose request body is incomplete; a client may never send the rest."""
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
        """Open the hall and start to accept, then call `on_start`.

        Raises LifespanFailed if a toolkit cannot be entered; uvicorn's own lifespan would only log that.
        """
        if sockets:  # links to the hall's pages begin with its own address
            self._hall.approval_components.public_url.port = sockets[0].getsockname()[1]
        await self._hall.open()
        await super().startup(sockets)
        if self._on_start:
            self._on_start(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End open event streams first, which would delay shutdown; then finish the other requests."""
        self._hall.end_streams()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop gracefully; a second SIGINT stops at once. Uvicorn would raise the signal again after shutdown."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
