"""Clients of a hall with many tools: they are shown a few, find the others, and hear only of what they are shown."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from subprocess import Popen
from typing import Any

import pytest

from tests.conformance import judge
from tests.conformance.serving import served, served_on_stdio
from tests.harness.http_client import Message, StreamingResponse
from tests.harness.mcp_client import (
    HttpMcpClient,
    McpClient,
    StdioMcpClient,
    http_mcp_client,
    shared_pipes,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS, modern_request
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess

SERVER = "searching.py"
VERSIONS = "dev.toolhall/versions"
LISTEN = "subscriptions/listen"
CHANGED = "notifications/tools/list_changed"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server over HTTP."""
    with served(SERVER) as found:
        yield found


@pytest.fixture(scope="module")
def stdio_servers() -> "Iterator[dict[bool, Popen[bytes]]]":
    """Servers on standard input and output, for modern clients and for others."""
    with served_on_stdio(SERVER) as legacy, served_on_stdio(SERVER) as modern:
        yield {False: legacy, True: modern}


@pytest.fixture(params=[(way, revision) for way in ("http", "stdio") for revision in REVISIONS], ids="-".join)
async def talk(
    request: pytest.FixtureRequest, server: ServerProcess, stdio_servers: "dict[bool, Popen[bytes]]"
) -> AsyncIterator[McpClient]:
    """A conversation in each revision and over each transport."""
    way, revision = request.param
    if way == "http":
        async with http_mcp_client(server.origin, revision) as found:
            yield found
    else:
        async with shared_pipes(stdio_servers[revision == MODERN]) as line:
            yield await stdio_mcp_client(line, revision)


async def listed(talk: McpClient, **meta: Any) -> list[Message]:
    """Every tool, over all pages; `meta` is said with each request."""
    found: list[Message] = []
    params: Message = {}
    while True:
        message = talk.request("tools/list", params)
        if meta:
            message.setdefault("params", {}).setdefault("_meta", {}).update(meta)
        page = (await talk.exchange(message)).result
        found += page["tools"]
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


def names(tools: list[Message]) -> list[str]:
    return [tool["name"] for tool in tools]


async def test_tools_list_shows_the_search_tool_and_pinned_tools(talk: McpClient) -> None:
    tools = await listed(talk)
    assert names(tools) == ["search_tools", "Weather_get"]
    assert tools[1]["inputSchema"]["required"] == ["city"], "the version that is pinned"
    assert tools[1]["_meta"]["dev.toolhall/id"] == "Weather.get@1.0.0"


async def test_search_tools_finds_an_unlisted_tool_that_can_be_called_by_name(talk: McpClient) -> None:
    found = (await talk.call("search_tools", {"query": "translate text"})).result["structuredContent"]["tools"]
    assert found[0]["name"] == "Crowd_translate"
    assert found[0]["inputSchema"]["required"] == ["text"]
    assert (await talk.call(found[0]["name"], {"text": "abc"})).text == "cba"
    (weather,) = [
        each
        for each in (await talk.call("search_tools", {"query": "weather"})).result["structuredContent"]["tools"]
        if each["name"] == "Weather_get"
    ]
    assert weather["id"] == "Weather.get@1.0.0", "what the name means, it is described as"


async def test_tools_call_name_means_the_pinned_version_and_an_id_any_version(talk: McpClient) -> None:
    assert (await talk.call("Weather_get", {"city": "Oslo"})).text == "first Oslo"
    assert (await talk.call("Weather.get@1.0.0", {"city": "Oslo"})).text == "first Oslo"
    assert (await talk.call("Weather.get@2.0.0", {"place": "Oslo"})).text == "second Oslo"
    assert (await talk.call("Weather.get@^2", {"place": "Oslo"})).text == "second Oslo"


async def test_tools_list_with_versions_all_lists_every_version(talk: McpClient) -> None:
    tools = await listed(talk, **{VERSIONS: "all"})
    assert names(tools) == ["search_tools", "Weather_get", "Weather.get@2.0.0"]
    assert tools[2]["inputSchema"]["required"] == ["place"]
    assert (await talk.call(tools[2]["name"], {"place": "Oslo"})).text == "second Oslo"


@pytest.mark.parametrize("wish", ["newest", None, True, ["all"]])
async def test_tools_list_with_another_versions_value_is_refused_with_the_fix(talk: McpClient, wish: Any) -> None:
    message = talk.request("tools/list", {})
    message.setdefault("params", {}).setdefault("_meta", {})[VERSIONS] = wish
    error = (await talk.exchange(message)).error
    assert (error["code"], VERSIONS in error["message"], '"all"' in error["message"]) == (-32602, True, True)


# --- who hears of what ------------------------------------------------------------------------------------------------


async def toggle(talk: McpClient, name: str) -> list[Message]:
    """Change the tools; what came on the way."""
    return (await talk.call("Changes_toggle", {"name": name})).notices


@asynccontextmanager
async def stream_of(talk: HttpMcpClient) -> AsyncGenerator[StreamingResponse]:
    """The stream on which this client hears of changes."""
    if talk.modern:
        body, headers = modern_request(LISTEN, {"notifications": {"toolsListChanged": True}}, id="listening")
        async with talk.http.open(body, headers) as stream:
            await stream.message()  # the acknowledgement
            yield stream
    else:
        async with talk.http.open(None, talk.headers, "GET") as stream:
            yield stream


@pytest.mark.requirement("M-25", "L-34")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_list_changed_over_http_is_sent_for_listed_tools_only(server: ServerProcess, revision: str) -> None:
    async with http_mcp_client(server.origin, revision) as talk, stream_of(talk) as stream:
        for expected in (["search_tools", "Weather_get", "pinned"], ["search_tools", "Weather_get"]):
            await toggle(talk, "unpinned")
            await toggle(talk, "pinned")
            change = await stream.message()
            judge.check(change, revision)
            assert change["method"] == CHANGED
            assert names(await listed(talk)) == expected
        assert await stream.silent(), "one notice for each change that is seen, none for the others"


@pytest.mark.requirement("M-25", "L-34")
@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[1], MODERN])
async def test_list_changed_on_stdio_is_sent_for_listed_tools_only(
    stdio_servers: "dict[bool, Popen[bytes]]", revision: str
) -> None:
    async with shared_pipes(stdio_servers[revision == MODERN]) as line:
        stdio = await stdio_mcp_client(line, revision)
        if stdio.modern:
            await stdio.write(stdio.request(LISTEN, {"notifications": {"toolsListChanged": True}}, id="listening"))
            await stdio.read()
        for _ in range(2):
            assert await toggle(stdio, "unpinned") == []
        assert (await stdio.ask("tools/list")).notices == [], "nothing came late"
        for _ in range(2):
            notices = await toggle(stdio, "pinned") or [await _next_notification(stdio)]
            assert [notice["method"] for notice in notices] == [CHANGED]
        if stdio.modern:
            await stdio.tell("notifications/cancelled", {"requestId": "listening"})


async def _next_notification(stdio: StdioMcpClient) -> Message:
    async with asyncio.timeout(patience()):
        return await stdio.read()
