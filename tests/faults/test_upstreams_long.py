"""Many sessions and many calls: what they cost in memory, and that it is given back."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from itertools import count as numbers
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults.upstream_hall import (
    FaultyUpstream,
    UpstreamCaller,
    UpstreamHall,
    patched_command,
    until,
    upstream_hall,
)
from tests.harness.http_client import AsyncConnection
from tests.harness.mcp_messages import NOVEMBER, encoded, handshake, tool_call
from tests.harness.seeds import count
from tests.harness.sync_mcp_client import answer_of, post

SESSIONS = count(500, 1_000)
SESSION_BYTES = 40 * 1024
CALLS = count(5_000, 1_000_000)
WARM = count(2_000, 10_000)  # calls, after which memory should hardly grow any more
AT_ONCE = 16
GROWTH = 1.1
T = TypeVar("T")
# On SIGUSR1 every session is idle for too long.
IDLE_ON_SIGNAL = """
import signal
from toolhall.execution.upstream import connection, sessions
connection.SWEEP_SECONDS = 0.2
signal.signal(signal.SIGUSR1, lambda *_: setattr(sessions, "IDLE_SECONDS", 0.0))
signal.signal(signal.SIGUSR2, lambda *_: setattr(sessions, "IDLE_SECONDS", 600.0))
"""


class Chat:
    """A client of an older revision with a session of its own in the hall."""

    def __init__(self, hall: UpstreamHall) -> None:
        self._port = hall.port
        self._session = ""

    async def start(self, line: AsyncConnection) -> None:
        line.send(post(self._port, encoded(handshake(NOVEMBER))))
        self._session = (await line.reply()).headers["mcp-session-id"]

    async def count(self, line: AsyncConnection, upstream: FaultyUpstream) -> str:
        body = encoded(tool_call(NOVEMBER, f"{upstream.name}_count"))
        line.send(post(self._port, body, ("MCP-Protocol-Version", NOVEMBER), ("Mcp-Session-Id", self._session)))
        return answer_of(await line.reply()).text


class Chats:
    """All chats, over a few connections to the hall."""

    def __init__(self, hall: UpstreamHall, lines: list[AsyncConnection]) -> None:
        self._chats = [Chat(hall) for _ in range(SESSIONS)]
        self._lines = lines

    async def start(self) -> None:
        """Open a session in the hall for each."""
        await self._each(Chat.start)

    async def count(self, upstream: FaultyUpstream) -> list[str]:
        """What each is answered."""
        return await self._each(lambda chat, line: chat.count(line, upstream))

    async def _each(self, action: Callable[[Chat, AsyncConnection], Awaitable[T]]) -> list[T]:
        async def some(number: int) -> list[T]:
            return [await action(chat, self._lines[number]) for chat in self._chats[number::AT_ONCE]]

        return [found for each in await asyncio.gather(*map(some, range(AT_ONCE))) for found in each]


async def test_many_sessions_are_small_and_end_when_they_are_idle(tmp_path: Path) -> None:
    upstream = FaultyUpstream(tmp_path, "Sessions", "http", share="session", max_sessions=SESSIONS + 10)
    shared = FaultyUpstream(tmp_path, "Shared", "http", share="hall")
    with upstream_hall(tmp_path, upstream, shared, command=patched_command(IDLE_ON_SIGNAL)) as hall:
        await hall.until_ready(upstream, shared)
        lines = [await AsyncConnection.open(hall.port) for _ in range(AT_ONCE)]
        chats = Chats(hall, lines)
        await chats.start()
        assert len({*await chats.count(shared)}) == SESSIONS, "one session, which counts them all"
        before, descriptors = hall.server.rss, hall.server.fds
        for rounds in (1, 2):  # what the first left behind may wait for the collector of garbage
            assert await chats.count(upstream) == ["1"] * SESSIONS
            assert hall.state("Sessions")["sessions"] == SESSIONS + 1  # and the hall's own
            assert hall.server.rss - before <= rounds * SESSIONS * SESSION_BYTES
            hall.server.process.send_signal(signal.SIGUSR1)
            assert await until(lambda: hall.state("Sessions")["sessions"] == 1)
            assert await until(lambda: hall.server.fds <= descriptors + AT_ONCE)
            hall.server.process.send_signal(signal.SIGUSR2)
        for line in lines:
            await line.close()


@pytest.mark.timeout(3_600)
async def test_many_calls_leave_memory_as_it_was(tmp_path: Path) -> None:
    upstreams = [FaultyUpstream(tmp_path, "Pipe", "stdio"), FaultyUpstream(tmp_path, "Web", "http")]
    with upstream_hall(tmp_path, *upstreams) as hall:
        await hall.until_ready(*upstreams)
        callers = [UpstreamCaller(hall) for _ in range(AT_ONCE)]
        done = numbers()
        figures: dict[int, int] = {}

        async def work(caller: UpstreamCaller) -> None:
            while (number := next(done)) < CALLS:
                answered = await caller.write(upstreams[number % 2])
                assert answered.ok
                if number in (0, WARM, CALLS - 1):
                    figures[number] = hall.server.rss

        await asyncio.gather(*map(work, callers))
        assert figures[CALLS - 1] <= figures[WARM] * GROWTH
        for caller in callers:
            await caller.close()
