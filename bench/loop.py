"""Calls in this process through the real connection code, with transports that only count: CPU without a kernel.

Theory of operation. One event loop holds the connections of Toolhall and, with the ceiling behind it, of uvicorn. Every
connection is handed one request, the loop runs until all are answered, and so on for one batch. A pass is one batch of
every target and then one more in the opposite order, which cancels the effects of the order and of a machine that gets
faster or slower meanwhile; each ratio is of two targets in the same pass. A round is the median of many passes, so that
what disturbs a single batch is not seen in it.

Between two batches the records of the first are written (`settle`), because a loop that never rests starves the thread
that writes them, until they are lost. That thread counts in the CPU of all threads, and not in the loop's.
"""

import asyncio
import logging
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from bench import messages
from bench.client import Client
from bench.counting_transport import CountingTransport
from bench.launch import LIMIT
from bench.messages import Spoken
from bench.servers import readings, tools
from bench.servers.ceiling import Ceiling, Full
from toolhall import Config, Toolhall, tool
from toolhall.pipeline.rate_buckets import Rate
from toolhall.registration.access import NewGrant, NewKey
from toolhall.server.server import HallServer
from toolhall.stores.audit.journal import AuditJournal

CONNECTIONS = 32
BATCH = 160  # calls
PASSES = 40  # of a round
WARM_UP_PASSES = 5
DISTINCT_REQUESTS = 1_000
CEILING, BARE, SESSION, KEY, GRANT = "ceiling full", "toolhall", "session", "key", "grant"
READ, PROMPT = "read", "prompt"

Factory = Callable[[], asyncio.Protocol]
Settle = Callable[[], Awaitable[None]]


class Batch(NamedTuple):
    """CPU microseconds per call: of the loop's thread, and of all threads until the records are written."""

    thread: float
    process: float

    def mean(self, other: "Batch") -> "Batch":
        """Of two batches of one size."""
        return Batch((self.thread + other.thread) / 2, (self.process + other.process) / 2)


class RecordingLoop(uvloop.Loop):
    """An event loop that keeps what the latest listening socket makes its connections with."""

    factory: Factory

    async def create_server(self, protocol_factory: Any, *args: Any, **more: Any) -> Any:
        """Listen, and keep the factory."""
        self.factory = protocol_factory
        return await super().create_server(protocol_factory, *args, **more)


class ServedHall(NamedTuple):
    """A hall that is served in this loop."""

    factory: Factory
    port: int
    settle: Settle


class LoopTarget:
    """Connections of one server, driven in batches."""

    def __init__(self, factory: Factory, settle: Settle, call: Spoken) -> None:
        self._settle = settle
        self._good = call.good.encode()
        self._left = 0
        self._done: asyncio.Future[None] | None = None
        self._requests = [call.request(number) for number in range(DISTINCT_REQUESTS)]
        self._number = 0
        self._connections = [factory() for _ in range(CONNECTIONS)]
        self._transports = [CountingTransport(connection, self._answered) for connection in self._connections]
        for connection, transport in zip(self._connections, self._transports, strict=True):
            connection.connection_made(transport)

    async def batch(self) -> Batch:
        """Make BATCH calls, then wait until they are recorded."""
        thread, process = time.thread_time(), time.process_time()
        await self._calls()
        thread = time.thread_time() - thread
        await self._settle()
        process = time.process_time() - process
        for transport in self._transports:
            if self._good not in transport.latest:
                raise RuntimeError(f"a wrong answer: {transport.latest!r}")
        return Batch(thread / BATCH * 1e6, process / BATCH * 1e6)

    def close(self) -> None:
        """End the connections."""
        for transport in self._transports:
            transport.close()

    async def _calls(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(BATCH // CONNECTIONS):
            self._left, self._done = CONNECTIONS, loop.create_future()
            for connection in self._connections:
                self._number += 1
                connection.data_received(self._requests[self._number % DISTINCT_REQUESTS])
            await self._done

    def _answered(self) -> None:
        self._left -= 1
        if not self._left and self._done is not None:
            self._done.set_result(None)


def measure_loop_cpu(rounds: int) -> dict[str, list[Batch]]:
    """Measure all targets in turn; by target one value for each pass, PASSES of them in a round."""
    logging.getLogger("toolhall").setLevel(logging.ERROR)  # a busy machine makes the watchdog warn of the loop
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        return uvloop.run(_measure(Path(folder), rounds), loop_factory=RecordingLoop)


async def _measure(folder: Path, rounds: int) -> dict[str, list[Batch]]:
    async with AsyncExitStack() as stack:
        targets = await _targets(folder, stack)
        for target in targets.values():
            stack.callback(target.close)
        for _ in range(WARM_UP_PASSES):
            await _pass(targets)
        passes = [await _pass(targets) for _ in range(rounds * PASSES)]
        return {name: [each[name] for each in passes] for name in targets}


async def _pass(targets: dict[str, LoopTarget]) -> dict[str, Batch]:
    there = {name: await target.batch() for name, target in targets.items()}
    back = {name: await targets[name].batch() for name in reversed(targets)}
    return {name: there[name].mean(back[name]) for name in targets}


async def _targets(folder: Path, stack: AsyncExitStack) -> dict[str, LoopTarget]:
    """The ceiling, and halls: one that is local, one that asks for a key, one whose tool also needs a grant."""
    local = await stack.enter_async_context(serving_in_loop(_hall(folder / "local", tools, readings, guarded=False)))
    session = await asyncio.to_thread(_open_session, local.port)
    calls = {BARE: messages.mcp_call(), SESSION: messages.mcp_call(session)} | messages.dialect_calls()
    del calls["mcp"]  # is the bare one
    calls |= {READ: messages.mcp_read(), PROMPT: messages.mcp_prompt()}
    targets = {CEILING: _ceiling(folder / "record.jsonl")}
    targets |= {name: LoopTarget(local.factory, local.settle, call) for name, call in calls.items()}
    for name, toolkit in ((KEY, tools), (GRANT, add)):
        hall = _hall(folder / name, toolkit, guarded=True)
        served = await stack.enter_async_context(serving_in_loop(hall))
        _, key = await hall.access.keys.create(NewKey(name="bench"), "bench")
        await hall.access.grants.add(NewGrant(callers="bench", tools="*"), "bench")
        targets[name] = LoopTarget(served.factory, served.settle, messages.mcp_call(key=key))
    return targets


@tool(level=4)
async def add(a: float, b: float) -> tools.Sum:
    """Add two numbers."""
    return {"result": a + b}


def _hall(folder: Path, *targets: object, guarded: bool) -> Toolhall:
    config = Config(data=str(folder), calls_per_second=1e9, call_burst=1e9)
    if guarded:
        limit = Rate(**LIMIT)
        config = Config(
            data=str(folder), profile="server", tool_limit=limit, pair_limit=limit, calls_per_second=1e9, call_burst=1e9
        )
    return Toolhall(*targets, config=config)


@asynccontextmanager
async def serving_in_loop(hall: Toolhall) -> AsyncGenerator[ServedHall]:
    """Run the real server, and take from it what makes a connection; all that depends on how it is built is here."""
    loop, started = asyncio.get_running_loop(), asyncio.Event()
    assert isinstance(loop, RecordingLoop)
    assert isinstance(hall.journal, AuditJournal)
    with hall, socket.create_server(("127.0.0.1", 0)) as listener:
        server = HallServer(hall, lambda _: started.set())
        running = asyncio.create_task(server.serve([listener]))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            raise RuntimeError("the server ended before it had started") from running.exception()
        try:
            yield ServedHall(loop.factory, listener.getsockname()[1], hall.journal.flush)
        finally:
            server.stop()
            await running


def _ceiling(record: Path) -> LoopTarget:
    full = Full(messages.KEY, record)
    config = uvicorn.Config(Ceiling(full), http="httptools", ws="none", log_config=None, access_log=False)
    config.load()
    return LoopTarget(lambda: HttpToolsProtocol(config, ServerState(), {}), full.settle, messages.mcp_call())


def _open_session(port: int) -> str:
    with Client(port) as client:
        return client.open_session()
