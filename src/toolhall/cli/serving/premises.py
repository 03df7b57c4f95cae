"""What every connection of one server shares: its entrance, its deadlines, its places, and how uvicorn is set up."""

import time
from collections.abc import Callable

import uvicorn

from toolhall.app import Toolhall
from toolhall.cli.serving.deadlines import Deadlines
from toolhall.cli.serving.entrance import Entrance, connections_possible
from toolhall.cli.serving.plain import Refusals

GRACE_SECONDS = 25
_USUAL = Deadlines()


class Premises:
    """Made once per server."""

    def __init__(
        self,
        hall: Toolhall,
        entrance: Entrance | None = None,
        deadlines: Deadlines = _USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.entrance = entrance or Entrance(connections_possible())
        self.deadlines = deadlines
        self.clock = clock
        self.room = hall.http.room
        self.refusals = Refusals()


class GuardedConfig(uvicorn.Config):
    """Uvicorn's settings; the connections find the premises in them."""

    def __init__(self, hall: Toolhall, premises: Premises, connection: type, socket: type) -> None:
        self.premises = premises
        super().__init__(
            hall.http,  # the hall itself would only hand on
            loop="auto",  # uvloop, where there is one
            http=connection,
            ws=socket,
            ws_max_size=hall.config.max_body_bytes,
            ws_per_message_deflate=False,  # what is packed could grow here, and its size could tell of secrets
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who calls is told by the connection alone
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
