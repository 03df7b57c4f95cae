"""What one caller may use up: calls, open streams, sessions; and what is forgotten with time."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest

from tests.conformance.serving import served
from tests.harness.mcp_client import HttpMcpClient, StatelessMcpClient, stateless_mcp_client
from tests.harness.mcp_messages import LEGACY, MODERN, modern_request
from toolhall import Config, Toolhall, tool
from toolhall.dialects.mcp.protocol import REVISION_2025_11_25
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.mcp.sessions import IDLE_SECONDS, McpSessions
from toolhall.mcp.stateful import StatefulSession
from toolhall.model.caller import LOCAL, Caller


@tool(effect="reads")
async def number() -> int:
    """Return a number."""
    return 42


@asynccontextmanager
async def hall_client(config: Config) -> AsyncGenerator[StatelessMcpClient]:
    """A hall with one tool, called without a server in between."""
    with Toolhall(number, config=config) as hall:
        transport = httpx2.ASGITransport(hall, client=("127.0.0.1", 40_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield StatelessMcpClient(client)


@pytest.mark.requirement("L-35", "M-26", "M-8")
@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
async def test_rate_limit_exceeded_is_429_with_retry_after(revision: str) -> None:
    async with hall_client(Config(calls_per_second=0.1, call_burst=3)) as http:
        talk = HttpMcpClient(http, revision, {})
        if not talk.modern:
            await talk.start()
        for _ in range(3):
            assert (await talk.call("number")).text == "42"
        async with talk.open(talk.request("tools/call", {"name": "number"})) as open_reply:
            reply = await open_reply.whole()
        assert reply.status == 429
        assert 1 <= int(reply.headers["retry-after"]) <= 10
        assert not -32768 <= reply.error["code"] <= -32000, (
            "a code of our own lies outside what JSON-RPC keeps to itself"
        )
        assert (await talk.ask("tools/list")).result["tools"], "a list is no call"
        await talk.end()


@pytest.mark.requirement("L-35", "M-26")
async def test_result_above_the_output_limit_is_an_error_result() -> None:
    @tool(effect="reads")
    async def flood() -> str:
        """Return more than anybody wants."""
        return "x" * 5_000

    with Toolhall(flood, config=Config(max_output_bytes=1_000)) as hall:
        transport = httpx2.ASGITransport(hall, client=("127.0.0.1", 40_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            result = (await StatelessMcpClient(client).modern("tools/call", {"name": "flood"})).result
    assert result["isError"] is True
    assert len(result["content"][0]["text"]) < 500


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("L-17", "L-19")
async def test_session_idle_too_long_is_removed() -> None:
    clock = Clock()
    sessions = McpSessions(clock)
    with Toolhall(number) as hall:

        def opened(caller: Caller = LOCAL) -> str:
            writer = McpEncoder(ServerInfo(name="n", version="1"), REVISION_2025_11_25)
            return sessions.open(StatefulSession(hall.dispatcher, writer, caller, {})).id

        used, idle = opened(), opened()
        clock.now += IDLE_SECONDS - 1
        assert sessions.find(used, LOCAL)
        clock.now += 2
        later = opened()
        assert sessions.find(idle, LOCAL) is None
        assert sessions.find(used, LOCAL)
        assert sessions.find(later, LOCAL)
        assert sessions.find(later, Caller("eve")) is None, "an id is no credential"
        sessions.close()


@pytest.mark.requirement("M-38", "M-26")
async def test_listen_streams_of_one_caller_above_the_limit_are_429() -> None:
    body, headers = modern_request("subscriptions/listen", {"notifications": {}})
    with served("probe.py") as server:
        async with stateless_mcp_client(server.origin) as http, AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(http.open(body, headers)) for _ in range(101)]
            assert [stream.status for stream in opened] == [200] * 100 + [429]
