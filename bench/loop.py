"""One call in this process through the real connection code, with a transport that only counts: CPU without a kernel.

Toolhall's own protocol class and uvicorn's, with the ceiling behind it, serve the same number of connections in one
event loop, in turn. Every connection sends one request, the loop runs until all are answered, and so on.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from bench import messages
from bench.messages import Spoken
from bench.servers import tools
from bench.servers.ceiling import Ceiling, Full
from toolhall import Config, Toolhall
from toolhall.server.server import HallServer

CONNECTIONS = 32
WARM_UP = 3_000
DISTINCT_REQUESTS = 1_000


class CountingTransport(asyncio.Transport):
    """A transport without a socket: counts the responses, keeps the latest."""

    def __init__(self, answered: Callable[[], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8_000)})
        self._answered = answered
        self.latest = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count a response; every server here writes one in one or two pieces, the last of which ends it."""
        self.latest = bytes(data)
        if b'"result"' in self.latest:
            self._answered()

    def is_closing(self) -> bool:
        """Never."""
        return False

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Nothing is open."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""


class LoopTarget:
    """Connections of one server, driven in batches."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol], spoken: Spoken) -> None:
        self._spoken = spoken
        self._left = 0
        self._done: asyncio.Future[None] | None = None
        self._requests = [self._request(number) for number in range(DISTINCT_REQUESTS)]
        self._number = 0
        self._connections = [protocol() for _ in range(CONNECTIONS)]
        self._transports = [CountingTransport(self._answered) for _ in self._connections]
        for connection, transport in zip(self._connections, self._transports, strict=True):
            connection.connection_made(transport)

    async def calls(self, count: int) -> None:
        """Make at least this many calls."""
        loop = asyncio.get_running_loop()
        for _ in range(-(-count // CONNECTIONS)):
            self._left, self._done = CONNECTIONS, loop.create_future()
            for connection in self._connections:
                self._number += 1
                connection.data_received(self._requests[self._number % DISTINCT_REQUESTS])
            await self._done
        if self._spoken.good.encode() not in self._transports[0].latest:
            raise SystemExit(f"a wrong answer: {self._transports[0].latest!r}")

    def _answered(self) -> None:
        self._left -= 1
        if not self._left and self._done is not None:
            self._done.set_result(None)

    def _request(self, number: int) -> bytes:
        body = self._spoken.numbered(number)
        pairs = {"Host": "127.0.0.1:8000"} | self._spoken.headers | {"Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in pairs.items())
        return f"POST {self._spoken.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class LoopFigures(NamedTuple):
    """CPU microseconds per call by target, one value a round: of the loop's thread, and of all threads."""

    thread: dict[str, list[float]]
    process: dict[str, list[float]]


def measure_loop_cpu(rounds: int, calls: int) -> LoopFigures:
    """Measure both servers in turn."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        return uvloop.run(_measure(Path(folder), rounds, calls))


async def _measure(folder: Path, rounds: int, calls: int) -> LoopFigures:
    config = Config(data=str(folder / "data"), calls_per_second=1e9, call_burst=1e9)
    with Toolhall(tools, config=config) as hall:
        await hall.open()
        server = HallServer(hall)
        ceiling = uvicorn.Config(
            Ceiling(Full(messages.KEY, folder / "record.jsonl")), http="httptools", ws="none", access_log=False
        )
        ceiling.load()
        spoken = messages.mcp_call()
        targets = {
            "toolhall": LoopTarget(server.new_connection, spoken),
            "ceiling": LoopTarget(lambda: HttpToolsProtocol(ceiling, ServerState(), {}), spoken),
        }
        hall.http.opened = True
        gc.freeze()
        gc.set_threshold(3_000, 10, 10)  # as the server does
        seen = LoopFigures({name: [] for name in targets}, {name: [] for name in targets})
        for target in targets.values():
            await target.calls(WARM_UP)
        for _ in range(rounds):
            for name, target in targets.items():
                thread, process = time.thread_time(), time.process_time()
                await target.calls(calls)
                seen.thread[name].append((time.thread_time() - thread) / calls * 1e6)
                seen.process[name].append((time.process_time() - process) / calls * 1e6)
        return seen
