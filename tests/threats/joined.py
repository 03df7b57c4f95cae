"""A hall with one tool server that a test makes up, and who may bring it."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.unit.execution.remote.fake_tool_server import (
    FakeToolServer,
    ServerConnection,
    fake_tool_server,
    http_response,
)
from toolhall import Config, Toolhall
from toolhall.dialects.hub.catalog import write_declaration
from toolhall.http.tool_server_join import HttpPeer
from toolhall.model.caller import SERVE_ALL, TRUSTED_SERVER, Caller
from toolhall.model.json import JsonObject
from toolhall.model.names import ToolId, published_name
from toolhall.model.tool import Tool

HERE = HttpPeer({"client": ("127.0.0.1", 9)}, {})
TOKEN = "token-0123456789"
ADA = Caller("ada", proof="key", scopes=frozenset({SERVE_ALL, TRUSTED_SERVER}))
EVE = Caller("eve", proof="key", scopes=frozenset({SERVE_ALL, TRUSTED_SERVER}))
OBJECT: JsonObject = {"type": "object"}


def tool_definition(name: str = "create", version: str = "1.0.0", **more: Any) -> Tool:
    found = Tool(id=ToolId("Calendar", name, version), name=published_name("Calendar", name), input=OBJECT, level=1)
    return msgspec.structs.replace(found, **more)


async def send_request(hall: Toolhall, by: Caller, method: str, **params: Any) -> Any:
    message = {"type": "request", "id": "1", "method": method, "params": params}
    reply = json.loads((await hall.hub.answer(json.dumps(message).encode(), by, "", HERE)).body)
    return reply["result"] if reply["error"] is None else reply["error"]


async def join(hall: Toolhall, url: str, *tools: Tool, by: Caller = ADA, replica: str = "replica-0123456789") -> Any:
    documents = [write_declaration(tools or (tool_definition(),))]
    return await send_request(hall, by, "join", server="s", replica=replica, url=url, token=TOKEN, tools=documents)


@asynccontextmanager
async def joined(
    answer: Callable[[JsonObject, ServerConnection], None], *tools: Tool, config: Config | None = None
) -> AsyncGenerator[tuple[Toolhall, FakeToolServer]]:
    """A hall, and one tool server that answers like this."""

    async def answered(body: bytes, wire: ServerConnection) -> None:
        message = json.loads(body)
        if message["type"] == "tool_request":
            answer(message, wire)
        else:
            await answer_correctly(body, wire)

    with Toolhall(config=config) as hall:
        await hall.open()
        async with fake_tool_server(answered) as found:
            assert "lease" in await join(hall, found.url, *tools)
            yield hall, found
        await hall.settle()


def response_body(message: JsonObject, **said: Any) -> bytes:
    return json.dumps({"type": "tool_response", "id": message["id"], "result": {}, "error": None, **said}).encode()


def answer_with(**said: Any) -> Callable[[JsonObject, ServerConnection], None]:
    return lambda message, wire: wire.write(http_response(response_body(message, **said)))


async def answer_correctly(body: bytes, wire: ServerConnection) -> None:
    message = json.loads(body)
    if message["type"] == "tool_request":
        wire.write(http_response(response_body(message)))
    else:
        said = {"type": "response", "id": message["id"], "result": {"status": "healthy"}, "error": None}
        wire.write(http_response(json.dumps(said).encode()))
