"""The HTTP server: uvicorn, with guarded connections; it says goodbye to open streams before it waits for their end."""

import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from toolhall.app import Toolhall
from toolhall.cli.serving.connection import GuardedConnection
from toolhall.cli.serving.premises import GuardedConfig, Premises, Served
from toolhall.cli.serving.socket_connection import GuardedSocket

_COLLECT = (3_000, 10, 10)  # nearly all of a call's leavings go by themselves: looking for cycles can wait
_LOOK_TICKS = 10  # of uvicorn's, ten a second


class GuardedServer(uvicorn.Server):
    """Stops when it is told to, with what runs finished."""

    def __init__(self, served: Served, premises: Premises | None = None) -> None:
        self._premises = premises or Premises(served)
        super().__init__(GuardedConfig(served, self._premises, GuardedConnection, GuardedSocket))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        gc.freeze()  # what is there now stays: the collector need not look through it with every call's leavings
        gc.set_threshold(*_COLLECT)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what runs finish."""
        self._drop_half_requests()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; once, every connection is looked at."""
        if counter % _LOOK_TICKS == 0:
            self.look()
        return await super().on_tick(counter)

    def look(self) -> None:
        """End the connections that have kept us waiting for too long."""
        now = self._premises.clock()
        for connection in list(self.server_state.connections):
            if isinstance(connection, GuardedConnection | GuardedSocket):
                connection.look(now)

    def _drop_half_requests(self) -> None:
        """A client that never sends the rest of its body must not hold up the end either."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and cycle.more_body:
                connection.transport.close()

    def stop(self) -> None:
        """Stop at the next tick, gracefully."""
        self.should_exit = True


class GracefulServer(GuardedServer):
    """Serves a hall; stops on SIGINT and SIGTERM, and the process then ends with code 0."""

    def __init__(
        self,
        hall: Toolhall,
        started: Callable[["GracefulServer"], None] | None = None,
        premises: Premises | None = None,
    ) -> None:
        self._hall = hall
        self._on_start = started
        super().__init__(hall, premises)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then say so; raises LifespanFailed, of which uvicorn would only write a log."""
        if sockets:  # links to the hall's pages begin with where it listens
            self._hall.people.place.port = sockets[0].getsockname()[1]
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
