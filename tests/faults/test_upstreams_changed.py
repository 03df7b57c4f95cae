"""An upstream changes what it offers: nobody is shown it before somebody has looked; then every client hears of it."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_wire_subscriptions import CHANGED, listening
from tests.faults.upstream_hall import FaultyUpstream, Transport, UpstreamCaller, UpstreamHall, until, upstream_hall
from tests.harness.cli import CliResult, CliRunner
from tests.harness.http_client import Message, StreamingResponse
from tests.harness.mcp_client import HttpMcpClient, http_mcp_client
from tests.harness.mcp_messages import MODERN, NOVEMBER
from tests.servers.faulty_mcp import TOOLS

NAME = "Docs"
WRITE, *OTHERS = TOOLS
OLD, NEW = "The tool write.", "The tool writes."
RELIST_SECONDS = 20.0  # far below the five minutes after which a list is fetched in any case
INTEGER: Message = {"type": "object", "properties": {"nonce": {"type": "integer"}}, "required": ["nonce"]}


async def listen(stream: StreamingResponse, heard: list[str]) -> None:
    """Note what comes on a stream."""
    while True:
        heard.append((await stream.message())["method"])


class Listeners:
    """A client of the newest revision and one of an older one, both told when the list of tools changes."""

    def __init__(self, stack: AsyncExitStack, hall: UpstreamHall) -> None:
        self._stack = stack
        self._hall = hall
        self.clients: list[HttpMcpClient] = []
        self.heard: list[list[str]] = []  # methods that each was told
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Listeners":
        for revision in (MODERN, NOVEMBER):
            client = await self._stack.enter_async_context(http_mcp_client(self._hall.server.origin, revision))
            self.clients.append(client)
            if client.modern:
                stream, _ = await self._stack.enter_async_context(listening(client.http, {"toolsListChanged": True}))
            else:
                stream = await self._stack.enter_async_context(client.http.open(None, client.headers, "GET"))
            self.heard.append([])
            self._tasks.append(asyncio.create_task(listen(stream, self.heard[-1])))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def hear(self, times: int) -> None:
        """Each has been told so often by now that the list changed."""
        assert await until(lambda: all(len(each) >= times for each in self.heard)), self.heard
        assert self.heard == [[CHANGED] * times] * len(self.heard)

    async def described(self) -> set[str]:
        """How the tool is described to each."""
        lists = [await client.tools() for client in self.clients]
        return {tool["description"] for tools in lists for tool in tools if tool["name"] == f"{NAME}_write"}

    async def call(self, nonce: Any) -> list[str]:
        """What each is answered."""
        return [(await each.call(f"{NAME}_write", {"nonce": nonce})).text for each in self.clients]


async def offer(hall: UpstreamHall, upstream: FaultyUpstream, *tools: Message) -> None:
    """Let the upstream list these tools and say so; one of them waits for a look."""
    upstream.list(*tools)
    async with http_mcp_client(hall.server.origin, MODERN) as client:
        assert (await client.call(f"{NAME}_notify", {})).text == "told"
    assert await until(lambda: hall.state(NAME)["waiting"] == 1)


def served(hall: UpstreamHall) -> str:
    """The version of the tool that is served."""
    (tool,) = (
        each
        for each in hall.web.ask("GET", "/api/tools").value["tools"]
        if each["id"].startswith(f"{NAME}.write@") and each["state"] == "active"
    )
    return str(tool["id"]).rpartition("@")[2]


@pytest.mark.parametrize(("transport", "modern"), [("stdio", True), ("http", False)])
async def test_changed_definition_is_shown_to_nobody_before_it_was_looked_at(
    tmp_path: Path, transport: Transport, modern: bool
) -> None:
    upstream = FaultyUpstream(tmp_path, NAME, transport, modern=modern, trusted=False)
    cli = CliRunner(tmp_path)

    def review(hall: UpstreamHall, *words: str) -> CliResult:
        return cli.run_process("upstream", "review", NAME, "--url", hall.server.url, *words)

    with upstream_hall(tmp_path, upstream) as hall:
        await hall.until_ready(upstream)
        async with AsyncExitStack() as stack, Listeners(stack, hall) as clients:
            assert served(hall) == "1.0.0"

            await offer(hall, upstream, {**WRITE, "description": NEW}, *OTHERS)
            await clients.hear(0)
            assert await clients.described() == {OLD}
            assert await clients.call("a") == ["a", "a"]
            shown = await asyncio.to_thread(review, hall)
            assert NEW in shown.out + shown.err
            accepted = await asyncio.to_thread(review, hall, "--yes")
            assert (accepted.code, "is active" in accepted.out) == (0, True), accepted
            await clients.hear(1)
            assert (await clients.described(), served(hall)) == ({NEW}, "1.0.1")

            await offer(hall, upstream, {**WRITE, "description": NEW, "inputSchema": INTEGER}, *OTHERS)
            refused = await clients.call("b")
            assert ["an operator must look" in each for each in refused] == [True, True], refused
            assert "b" not in upstream.calls
            assert served(hall) == "1.0.1"
            accepted = await asyncio.to_thread(review, hall, "--yes")
            assert (accepted.code, f"{NAME}.write@2.0.0" in accepted.out) == (0, True), accepted
            assert served(hall) == "2.0.0"
            assert await clients.call(7) == ["7", "7"]
            await clients.hear(2)
    assert json.loads((upstream.folder / "tools.json").read_text())[0]["inputSchema"] == INTEGER


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_upstream_that_restarts_with_other_definitions_is_listed_again(tmp_path: Path, *, modern: bool) -> None:
    """It told nobody, since nobody listened."""
    upstream = FaultyUpstream(tmp_path, NAME, "http", modern=modern, trusted=False)
    with upstream_hall(tmp_path, upstream) as hall:
        await hall.until_ready(upstream)
        assert hall.state(NAME)["waiting"] == 0
        upstream.list({**WRITE, "description": NEW}, *OTHERS)
        upstream.start()
        assert await until(lambda: hall.state(NAME)["waiting"] == 1, RELIST_SECONDS)


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_upstream_of_another_era_after_its_restart_answers_the_next_call(tmp_path: Path, *, modern: bool) -> None:
    """Somebody updated it, or went back to an older one."""
    upstream = FaultyUpstream(tmp_path, NAME, "http", modern=modern)
    with upstream_hall(tmp_path, upstream) as hall:
        await hall.until_ready(upstream)
        caller = UpstreamCaller(hall)
        assert (await caller.write(upstream)).ok
        upstream.start(modern=not modern)
        answered = await caller.write(upstream)
        assert answered.ok, answered.answer.text
        await caller.close()
    assert len(upstream.calls) == 2
