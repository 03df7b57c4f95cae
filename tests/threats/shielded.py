"""A server in this process whose clock, places and entrance are the test's, and a client that sends what it likes."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.harness.http_client import HOST, AsyncConnection, http_request
from tests.harness.mcp_messages import MODERN, encoded, headers_for, tool_call
from tests.harness.patience import patience
from tests.harness.sync_mcp_client import post
from tests.unit.builders import Clock
from toolhall import Config, Toolhall, tool
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionLimiter
from toolhall.server.server import HallServer


class Shielded:
    """The server, and a gate at which its tool `holds` waits until the test opens it."""

    def __init__(self, config: Config | None = None) -> None:
        self.clock = Clock()
        self.gate = asyncio.Event()
        self.held = self.ended = 0
        self.hall = Toolhall(tool(self._holds()), tool(large), config=config)
        self.port = 0
        self.server: HallServer

    def _holds(self) -> Any:
        async def holds() -> str:
            """Wait for the test."""
            self.held += 1
            try:
                await self.gate.wait()
            finally:
                self.ended += 1
            return "held"

        return holds

    @property
    def connections(self) -> list[Any]:
        """The server's side of every connection."""
        return list(self.server.context.connections)

    @property
    def tasks(self) -> int:
        """How many requests are being answered."""
        return len(self.server.context.tasks)

    def after(self, seconds: float) -> None:
        """Let time pass, and look at every connection as the server does once a second."""
        self.server.check_timeouts()
        self.clock.now += seconds
        self.server.check_timeouts()

    async def until(self, holds: Callable[[], object]) -> None:
        """Turn the loop until this is so."""
        async with asyncio.timeout(patience()):
            while not holds():  # noqa: ASYNC110 - nothing tells when the server has read something
                await asyncio.sleep(0)

    def call(self, name: str, **arguments: Any) -> bytes:
        """A whole request of the newest revision."""
        body = encoded(tool_call(MODERN, name, arguments))
        return post(self.port, body, *headers_for(body))

    def get(self, path: str) -> bytes:
        """A GET."""
        return http_request("GET", path, [("Host", HOST)])


async def large(size: int) -> str:
    """So many letters."""
    return "x" * size


@asynccontextmanager
async def shielded(
    admission: ConcurrencyLimiter | None = None, entrance: ConnectionLimiter | None = None, config: Config | None = None
) -> AsyncGenerator[Shielded]:
    """Serve on a free port until the test is over."""
    served = Shielded(config)
    with served.hall, socket.create_server((HOST, 0), backlog=2048) as listening:
        if admission is not None:
            served.hall.http.limiter = admission
        begun = asyncio.Event()
        premises = ServerContext(served.hall, entrance or ConnectionLimiter(), clock=served.clock)
        served.server = HallServer(served.hall, lambda _: begun.set(), premises)
        served.port = listening.getsockname()[1]
        serving = asyncio.create_task(served.server.serve([listening]))
        await begun.wait()
        try:
            yield served
        finally:
            served.gate.set()
            for connection in served.connections:
                connection.transport.abort()
            served.server.stop()
            await serving


@asynccontextmanager
async def connected(served: Shielded, **options: Any) -> AsyncGenerator[AsyncConnection]:
    """A connection that the server has taken."""
    client = await AsyncConnection.open(served.port, **options)
    mine = client.address
    await served.until(lambda: mine in [connection.client for connection in served.connections])
    try:
        yield client
    finally:
        await client.close()
