"""Connection: what HTTP and WebSocket connections have in common, that is addresses, flow control and limits."""

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from toolhall.server.context import ServerContext
from toolhall.server.limits import TimeoutTracker


class Connection(asyncio.Protocol, ABC):
    """One connection to a server: counted while it is open, paused while its client does not read."""

    transport: asyncio.Transport
    client: tuple[str, int] | None = None  # None for a Unix socket
    server: tuple[str, int | None] | None = None
    write_paused: bool  # the client does not read
    read_paused: bool
    is_counted = False  # by the ConnectionLimiter
    is_lost = False
    _drained: asyncio.Event | None = None  # made when a task waits

    def __init__(self, context: ServerContext, loop: asyncio.AbstractEventLoop) -> None:
        self.context = context
        self.loop = loop
        self.timeout = TimeoutTracker()
        self.write_paused = self.read_paused = False  # in the object, because every request reads them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # never another kind
        """Note the addresses; abort a connection of an unknown address, which must not pass for a Unix socket."""
        self.transport = transport
        self.context.connections.add(self)
        name: Any = transport.get_extra_info("sockname")
        peer: Any = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            if not isinstance(peer, tuple):  # it is gone already
                transport.abort()
                return
            self.client = (str(peer[0]), int(peer[1]))
            self.server = (str(name[0]), int(name[1]))
        else:
            self.server = (str(name or ""), None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """Forget the connection, and let nobody wait for its client."""
        self.is_lost = True
        self.context.connections.discard(self)
        self.release()
        self.resume_writing()

    def acquire(self) -> bool:
        """Count the connection; False at a limit."""
        self.is_counted = self.context.connection_limiter.acquire(self.client[0] if self.client else None)
        return self.is_counted

    def release(self) -> None:
        """Count the connection no longer."""
        if self.is_counted:
            self.is_counted = False
            self.context.connection_limiter.release(self.client[0] if self.client else None)

    @abstractmethod
    def check_timeouts(self, now: float) -> None:
        """End the connection if its client has exceeded a timeout; the server calls this about once a second."""

    @abstractmethod
    def shutdown(self) -> None:
        """Close the connection now, or after the response to the request in progress."""

    def abort(self) -> None:
        """Close the connection at once; what was not sent is lost."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """Called by the transport when its write buffer is full."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Called by the transport when its write buffer has room again."""
        self.write_paused = False
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    async def drain(self) -> None:
        """Wait until the write buffer has room, or the connection is lost."""
        while self.write_paused:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause_reading(self) -> None:
        """Read nothing more from the client."""
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if self.read_paused and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()
