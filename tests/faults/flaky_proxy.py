"""A TCP proxy that does harm: by a seeded plan, or when it is told to."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from random import Random
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["latency", "stall", "drop", "reset", "close", "half_close", "corrupt", "duplicate"]
Way: TypeAlias = Literal["up", "down"]
WAYS: tuple[Way, ...] = ("up", "down")
_PIECE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)


class Fault(NamedTuple):
    """Harm to what goes `up` to the server or `down` from it, once so many bytes have passed.

    latency: every piece from then on is late. stall: nothing passes until `heal`. drop: the rest is swallowed.
    reset, close: both connections end, with or without RST. half_close: this way ends, the other goes on.
    corrupt: one byte is another. duplicate: one piece comes twice.
    """

    kind: Kind
    way: Way = "down"
    after: int = 0
    seconds: float = 0.0


class _Flow:
    """Whether anything passes, for all connections; who stalls by plan waits for the next healing."""

    def __init__(self) -> None:
        self.ways: dict[Way, asyncio.Event] = {way: asyncio.Event() for way in WAYS}
        self.healed = asyncio.Event()
        self.heal()

    def heal(self) -> None:
        self.healed.set()
        self.healed = asyncio.Event()
        for way in self.ways.values():
            way.set()


class FlakyProxy:
    """Forwards connections to a port of this machine, each with what the plan has for it."""

    def __init__(self, upstream_port: int, seed: int = 0) -> None:
        self._upstream = upstream_port
        self._random = Random(seed)
        self._faults: Sequence[Fault] = ()
        self._share = 0.0
        self._cut = asyncio.Event()
        self._flow = _Flow()
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0
        self.connections = 0  # that were ever made

    async def __aenter__(self) -> "FlakyProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._pairs)

    def plan(self, *faults: Fault, share: float = 1.0) -> None:
        """New connections get one of these; only this share of them, if it is less than all."""
        self._faults = faults
        self._share = share

    def cut(self) -> None:
        """Reset every connection, and every new one at once, until `heal`."""
        self._cut.set()
        for pair in [*self._pairs]:
            pair.cut()

    def half_close(self) -> None:
        """Tell all clients that nothing more comes; what they say still gets through."""
        for pair in self._pairs:
            pair.half_close("down")

    def stall(self, *ways: Way) -> None:
        """Nothing passes any more, and nobody is told; without a way, in both."""
        for way in ways or WAYS:
            self._flow.ways[way].clear()

    def heal(self) -> None:
        """Let pass what was held up, and new connections; what was reset stays so."""
        self._cut.clear()
        self._flow.heal()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self._random.choice(self._faults) if self._faults and self._random.random() < self._share else None
        pair = _Pair(writer, fault, self._flow, Random(self._random.random()))
        self._pairs.add(pair)
        try:
            await self._pumped(pair, reader)
        except* OSError:
            pair.reset()
        finally:
            self._pairs.discard(pair)
            await pair.end(reset=self._cut.is_set())

    async def _pumped(self, pair: "_Pair", reader: asyncio.StreamReader) -> None:
        if self._cut.is_set():
            return
        answers, pair.writers["up"] = await asyncio.open_connection("127.0.0.1", self._upstream)
        if self._cut.is_set():
            return
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(pair.pump("up", reader))
            pumps.create_task(pair.pump("down", answers))


class _Pair:
    """The two halves of one connection, and the harm that waits for them."""

    def __init__(self, client: asyncio.StreamWriter, fault: Fault | None, flow: _Flow, random: Random) -> None:
        self.writers: dict[Way, asyncio.StreamWriter] = {"down": client}
        self._fault = fault
        self._flow = flow
        self._random = random
        self._serving = asyncio.current_task()
        self._ended: set[Way] = set()

    async def pump(self, way: Way, reader: asyncio.StreamReader) -> None:
        """Pass on what comes, until it ends; then say that it has."""
        passed = 0
        while data := await reader.read(_PIECE):
            await self._flow.ways[way].wait()
            async for piece in self._harmed(way, data, passed):
                if way not in self._ended:  # after its end nothing more is said
                    self.writers[way].write(piece)
                    await self.writers[way].drain()
            passed += len(data)
        await self._flow.ways[way].wait()
        self.half_close(way)

    def half_close(self, way: Way) -> None:
        writer = self.writers[way]
        self._ended.add(way)
        if writer.can_write_eof() and not writer.is_closing():
            with suppress(OSError):
                writer.write_eof()

    def cut(self) -> None:
        """End it now, also if something waits for better times."""
        self.reset()
        if self._serving is not None:
            self._serving.cancel()

    def reset(self) -> None:
        for writer in self.writers.values():
            if not writer.is_closing():
                found: socket.socket = writer.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    async def end(self, *, reset: bool) -> None:
        if reset:
            self.reset()
        for writer in self.writers.values():
            writer.close()
        for writer in self.writers.values():
            with suppress(OSError):
                await writer.wait_closed()

    async def _harmed(self, way: Way, data: bytes, passed: int) -> AsyncGenerator[bytes]:
        """What becomes of a piece."""
        fault = self._fault
        if fault is None or fault.way != way or passed + len(data) <= fault.after:
            yield data
            return
        sound = max(0, fault.after - passed)
        if sound:
            yield data[:sound]
        data = data[sound:]
        match fault.kind:
            case "latency":
                await asyncio.sleep(fault.seconds)
            case "stall":
                self._fault = None
                await self._flow.healed.wait()
            case "duplicate":
                self._fault = None
                yield data
            case "corrupt":
                self._fault = None
                data = bytes([data[0] ^ self._random.randrange(1, 256)]) + data[1:]
            case _:
                self._stop(fault.kind, way)
                data = b""
        if data:
            yield data

    def _stop(self, kind: Kind, way: Way) -> None:
        """Nothing more passes this way."""
        match kind:
            case "reset":
                self.reset()
            case "close":
                for writer in self.writers.values():
                    writer.close()
            case "half_close":
                self.half_close(way)
            case _:
                pass
