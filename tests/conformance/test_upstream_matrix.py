"""Every revision of a client in front of a hall, with every revision of an upstream behind it, over every transport.

No cell is impossible: what an older revision cannot say (2024-11-05 and 2025-03-26 have no elicitation) their servers
say all the same here, since the hall declares it to all.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_client import Message
from tests.harness.mcp_client import HttpMcpClient, http_mcp_client
from tests.harness.mcp_messages import MODERN, REVISIONS, McpAnswer, modern_request
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, eventually, server_process, toolhall
from tests.servers import revision_mcp

UPSTREAMS = [
    ("2024-11-05", "stdio"),
    ("2024-11-05", "sse"),
    *itertools.product(("2025-03-26", "2025-06-18", "2025-11-25", MODERN), ("stdio", "http")),
]
PERSON: Message = {"action": "accept", "content": {"name": "Ada"}}
MODEL: Message = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}


class Bridge:
    """A hall in front of every upstream."""

    def __init__(self, hall: ServerProcess, folder: Path) -> None:
        self.origin = hall.origin
        self._folder = folder

    def calls(self, toolkit: str) -> list[str]:
        """What ran at an upstream, and what was cancelled there."""
        file = self._folder / toolkit / "calls"
        return file.read_text().split() if file.exists() else []


def toolkit_of(revision: str, transport: str) -> str:
    return f"R{revision}-{transport}"


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """All servers and the hall, for every test here."""
    folder = tmp_path_factory.mktemp("matrix")
    servers: dict[str, Message] = {}
    running: list[ServerProcess] = []
    try:
        for revision, transport in UPSTREAMS:
            name = toolkit_of(revision, transport)
            (folder / name).mkdir()
            command = [sys.executable, "-S", str(Path(revision_mcp.__file__)), revision, transport]
            if transport == "stdio":
                servers[name] = {"command": command[0], "args": command[1:], "cwd": str(folder / name)}
            else:
                running.append(ServerProcess.start(command, folder / name))
                servers[name] = {"url": running[-1].ready().first["url"]}
        for settings in servers.values():
            settings |= {"trusted": True, "on_change": "follow"}  # or new tools would wait for somebody's look
        lines = [line for name, settings in servers.items() for line in (f'["upstreams"."{name}"]', *_toml(settings))]
        (folder / "toolhall.toml").write_text("\n".join(lines))
        command = toolhall("serve", "--port", "0", "--json")
        with server_process(command, folder, env=environment(folder, {}), log=folder / "hall.log") as hall:
            yield Bridge(hall, folder)
    finally:
        for server in running:
            server.kill()


def _toml(server: Message) -> list[str]:
    """The settings of a server; their values are written in TOML as in JSON."""
    return [f"{name} = {json.dumps(value)}" for name, value in server.items()]


@pytest.fixture(params=REVISIONS)
async def client(request: pytest.FixtureRequest, bridge: Bridge) -> AsyncIterator[HttpMcpClient]:
    async with http_mcp_client(bridge.origin, request.param) as found:
        yield found


@pytest.fixture(params=UPSTREAMS, ids="-".join)
async def toolkit(request: pytest.FixtureRequest, client: HttpMcpClient) -> str:
    """The toolkit of an upstream whose tools are listed."""
    name = toolkit_of(*request.param)
    await _until_listed(client, f"{name}_echo")
    return name


async def _until_listed(client: HttpMcpClient, tool: str) -> None:
    async with asyncio.timeout(patience()):
        while tool not in [each["name"] for each in await client.tools()]:  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.05)


async def test_list_call_and_error(client: HttpMcpClient, toolkit: str) -> None:
    assert (await client.call(f"{toolkit}_echo", {"text": "héllo"})).text == "héllo"
    failed = await client.call(f"{toolkit}_fail", {})
    assert (failed.is_error, failed.text) == (True, "no such city")


async def test_progress_and_log(client: HttpMcpClient, toolkit: str) -> None:
    answer = await client.call(f"{toolkit}_progress", {}, token="t1")
    told = [each["progress"] for each in answer.told("progress")]
    assert told == [1, 2]
    await client.set_level("info")
    logged = await client.call(f"{toolkit}_log", {}, token="t2")
    assert [each["data"] for each in logged.told("message")] == ["logged"]


async def test_cancel(client: HttpMcpClient, toolkit: str, bridge: Bridge) -> None:
    before = bridge.calls(toolkit).count("cancelled")
    begun = bridge.calls(toolkit).count("hang")
    message = client.request("tools/call", {"name": f"{toolkit}_hang", "arguments": {}})
    call = asyncio.create_task(_exchanged(client, message))
    assert await asyncio.to_thread(eventually, lambda: bridge.calls(toolkit).count("hang") > begun)
    if not client.modern:
        await client.tell("notifications/cancelled", {"requestId": message["id"]})
    else:
        call.cancel()
    assert await asyncio.to_thread(eventually, lambda: bridge.calls(toolkit).count("cancelled") > before)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def _exchanged(client: HttpMcpClient, message: Message) -> McpAnswer:
    return await client.exchange(message)


@pytest.mark.parametrize(("tool", "reply"), [("ask", PERSON), ("sample", MODEL)])
async def test_question(client: HttpMcpClient, toolkit: str, bridge: Bridge, tool: str, reply: Message) -> None:
    before = bridge.calls(toolkit).count(tool)
    asked: list[Message] = []

    def respond(question: Message) -> Message:
        asked.append(question)
        return reply

    answer = await client.call(f"{toolkit}_{tool}", {}, respond=respond)
    assert json.loads(answer.text) == reply
    assert len(asked) == 1
    # A modern server is asked twice, since it answers with its question; an effect of a legacy one happens once.
    assert bridge.calls(toolkit).count(tool) - before == (2 if MODERN in toolkit else 1)


async def test_read_and_prompt(client: HttpMcpClient, toolkit: str) -> None:
    uri = f"note:///{toolkit}"
    assert uri in [each["uri"] for each in (await client.ask("resources/list")).result["resources"]]
    read: Any = (await client.ask("resources/read", {"uri": uri})).result["contents"]
    assert [(each["uri"], each["text"]) for each in read] == [(uri, "the text of one")]
    prompt = (await client.ask("prompts/get", {"name": f"{toolkit}_greet", "arguments": {"name": "Ada"}})).result
    assert prompt["messages"][0]["content"]["text"] == "Greet Ada"


@pytest.mark.parametrize("upstream", UPSTREAMS, ids="-".join)
async def test_list_changed(bridge: Bridge, upstream: tuple[str, str]) -> None:
    name = toolkit_of(*upstream)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(http_mcp_client(bridge.origin, each)) for each in REVISIONS]
        await _until_listed(clients[0], f"{name}_change")
        await clients[0].call(f"{name}_change", {})
        for client in clients:
            await _until_listed(client, f"{name}_added1")


@pytest.mark.parametrize("upstream", UPSTREAMS, ids="-".join)
async def test_resource_updated(bridge: Bridge, upstream: tuple[str, str]) -> None:
    name = toolkit_of(*upstream)
    uri = f"note:///{name}"
    async with http_mcp_client(bridge.origin, MODERN) as client:
        await _until_listed(client, f"{name}_touch")
        body, headers = modern_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
        async with client.http.open(body, headers) as stream:
            await stream.message()  # the acknowledgement
            assert await asyncio.to_thread(eventually, lambda: "resources/subscribe" in bridge.calls(name))
            await client.call(f"{name}_touch", {"text": uri})
            async with asyncio.timeout(patience()):
                told = await stream.message()
            assert told["method"] == "notifications/resources/updated"
            assert told["params"]["uri"] == uri
