"""What every connection of one server shares: its entrance, its deadlines, its limiter, and how uvicorn is set up."""

import time
from collections.abc import Callable
from typing import Protocol

import uvicorn

from toolhall.cli.serving.access_log import AccessLog
from toolhall.cli.serving.deadlines import Deadlines
from toolhall.cli.serving.entrance import Entrance, connections_possible
from toolhall.cli.serving.plain import Refusals
from toolhall.transports.asgi import Receive, Scope, Send
from toolhall.transports.overload import RequestLimiter

GRACE_SECONDS = 25
_USUAL = Deadlines()


class Application(Protocol):
    """Answers requests, as many at once as it admits."""

    @property
    def admission(self) -> RequestLimiter:
        """What bounds them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        ...


class Sizes(Protocol):
    """Settings."""

    @property
    def max_body_bytes(self) -> int:
        """The largest message that is read."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest frame of a WebSocket that is read."""
        ...

    @property
    def access_log(self) -> bool:
        """Whether every request is logged."""
        ...


class Served(Protocol):
    """What a server is there for: a hall, or a tool server."""

    @property
    def http(self) -> Application:
        """What answers."""
        ...

    @property
    def config(self) -> Sizes:
        """Its settings."""
        ...


class Premises:
    """Made once per server."""

    def __init__(
        self,
        served: Served,
        entrance: Entrance | None = None,
        deadlines: Deadlines = _USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.entrance = entrance or Entrance(connections_possible())
        self.deadlines = deadlines
        self.clock = clock
        self.admission = served.http.admission
        self.refusals = Refusals()


class GuardedConfig(uvicorn.Config):
    """Uvicorn's settings; the connections find the premises in them."""

    def __init__(self, served: Served, premises: Premises, connection: type, socket: type) -> None:
        self.premises = premises
        super().__init__(
            AccessLog(served.http) if served.config.access_log else served.http,  # a hall itself would only hand on
            loop="auto",  # uvloop, where there is one
            http=connection,
            ws=socket,
            ws_max_size=served.config.max_frame_bytes,
            ws_per_message_deflate=False,  # what is packed could grow here, and its size could tell of secrets
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who calls is told by the connection alone
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
