"""The HTTP server: uvicorn, which says goodbye to open streams before it waits for them to end."""

import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from toolhall.app import Toolhall

GRACE_SECONDS = 25


class GracefulServer(uvicorn.Server):
    """Stops on SIGINT and SIGTERM with what runs finished, and the process then ends with code 0."""

    def __init__(self, hall: Toolhall, started: Callable[["GracefulServer"], None] | None = None) -> None:
        self._hall = hall
        self._on_start = started
        super().__init__(_config(hall))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then say so."""
        await super().startup(sockets)
        gc.freeze()  # what is there now stays: the collector need not look through it with every call's leavings
        if self._on_start:
            self._on_start(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """A stream that stays open would hold up the end, so clients are told first."""
        self._hall.end_streams()
        self._drop_half_requests()
        await super().shutdown(sockets)

    def _drop_half_requests(self) -> None:
        """A client that never sends the rest of its body must not hold up the end either."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and cycle.more_body:
                connection.transport.close()

    def stop(self) -> None:
        """Stop at the next tick, gracefully."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop; a second Ctrl+C does not wait. uvicorn would also raise the signal again, which ends with its code."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _config(hall: Toolhall) -> uvicorn.Config:
    return uvicorn.Config(
        hall.http,  # the hall itself would only hand on
        loop="auto",  # uvloop, where there is one
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=hall.config.max_body_bytes,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # who calls is told by the connection alone
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
