"""ServerContext: what all connections of a server share, and the protocols of what it serves (ServedApp)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from toolhall.auth.authenticator import AsgiApp, Receive, Scope, Send
from toolhall.http.request import RequestHead, ServerExchange
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.server.access_log import AccessLog
from toolhall.server.limits import ConnectionLimiter, ConnectionTimeouts, raise_connection_limit
from toolhall.server.responses import BusyResponses, ResponseHeads

_DEFAULT_TIMEOUTS = ConnectionTimeouts()


class LimitedApp(Protocol):
    """An ASGI application with a limit on concurrent requests."""

    @property
    def limiter(self) -> ConcurrencyLimiter:
        """The limiter of concurrent requests, which also rejects them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        ...


@runtime_checkable
class HeadApp(Protocol):
    """An application that serves complete plain requests without ASGI, and accepts a validated head again."""

    def prepare(self, scope: Scope) -> RequestHead | None:
        """Validate the head of a request for use with any body; None if only ASGI can serve it."""
        ...

    def serve(self, head: RequestHead, body: bytes, exchange: ServerExchange) -> Awaitable[None]:
        """Serve a request with a prepared head and a complete body."""
        ...


class SizeLimits(Protocol):
    """The settings of a served application that the server needs."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body in bytes."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest WebSocket message in bytes."""
        ...

    @property
    def access_log(self) -> bool:
        """Whether every request is logged."""
        ...


class ServedApp(Protocol):
    """What a server serves: a hall or a tool server."""

    @property
    def http(self) -> LimitedApp:
        """The ASGI application."""
        ...

    @property
    def config(self) -> SizeLimits:
        """Its settings."""
        ...


class ServerConnection(Protocol):
    """A connection as the server sees it: HttpProtocol or WebSocketProtocol."""

    def check_timeouts(self, now: float) -> None:
        """End the connection if its client has exceeded a timeout."""
        ...

    def shutdown(self) -> None:
        """Close the connection now, or after the response to the request in progress."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class ServerContext:
    """What all connections of a server share: application, limits, timeouts, clock, encoded responses.

    It also knows the open connections and the tasks of requests in progress; a request that is answered in its first
    step never becomes one of them.
    """

    def __init__(
        self,
        served: ServedApp,
        connection_limiter: ConnectionLimiter | None = None,
        timeouts: ConnectionTimeouts = _DEFAULT_TIMEOUTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        app: AsgiApp = AccessLog(served.http) if served.config.access_log else served.http
        self.app = app
        self.head_app = _as_head_app(app)
        self.max_frame_bytes = served.config.max_frame_bytes
        self.connection_limiter = connection_limiter or ConnectionLimiter(raise_connection_limit())
        self.timeouts = timeouts
        self.clock = clock
        self.limiter = served.http.limiter
        self.busy_responses = BusyResponses()
        self.heads = ResponseHeads()
        self.connections: set[ServerConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()


def _as_head_app(app: object) -> HeadApp | None:
    return app if isinstance(app, HeadApp) else None
