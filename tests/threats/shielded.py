"""A server in this process whose clock, places and entrance are the test's, and a client that sends what it likes."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.threats.lines import MODERN, calling, encoded, modern_headers
from tests.threats.wire import HOST, http, post
from tests.unit.builders import Clock
from toolhall import Config, Toolhall, tool
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.server.context import ConnectionLimiter, ServerContext
from toolhall.server.server import HallServer

WAIT_SECONDS = 60.0


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
        return list(self.server.server_state.connections)

    @property
    def tasks(self) -> int:
        """How many requests are being answered."""
        return len(self.server.server_state.tasks)

    def after(self, seconds: float) -> None:
        """Let time pass, and look at every connection as the server does once a second."""
        self.server.check_timeouts()
        self.clock.now += seconds
        self.server.check_timeouts()

    async def until(self, holds: Callable[[], object]) -> None:
        """Turn the loop until this is so."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():  # noqa: ASYNC110 - nothing tells when the server has read something
                await asyncio.sleep(0)

    def call(self, name: str, **arguments: Any) -> bytes:
        """A whole request of the newest revision."""
        body = encoded(calling(MODERN, name, arguments))
        return post(self.port, body, *modern_headers(body))

    def get(self, path: str) -> bytes:
        """A GET."""
        return http("GET", path, [("Host", HOST)])


async def large(size: int) -> str:
    """So many letters."""
    return "x" * size


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._writer.write(data)

    async def status(self) -> int:
        """The status of the next reply; its body is read away."""
        return (await self.reply())[0]

    async def reply(self) -> tuple[int, dict[str, str], Any]:
        """The next reply: status, headers, and the JSON in it."""
        async with asyncio.timeout(WAIT_SECONDS):
            first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): said for name, _, said in (line.partition(": ") for line in lines)}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(first.split()[1]), headers, json.loads(body or b"null")

    async def head(self) -> bytes:
        """The status line and the headers of a reply that goes on."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def some(self) -> bytes:
        """Whatever comes next."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self._reader.read(65536)

    async def rest(self) -> bytes:
        """Everything until the other side closes."""
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                return await self._reader.read()
        return b""

    async def close(self) -> None:
        """Go away."""
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


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
async def connected(served: Shielded, **options: Any) -> AsyncGenerator[Client]:
    """A connection that the server has taken."""
    reader, writer = await asyncio.open_connection(HOST, served.port, **options)
    client, mine = Client(reader, writer), writer.get_extra_info("sockname")
    await served.until(lambda: mine in [connection.client for connection in served.connections])
    try:
        yield client
    finally:
        await client.close()
