"""A hall that is managed over HTTP, without a socket, and definitions to bring."""

import json
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from tests.harness.asgi_client import AsgiRequest
from toolhall import Toolhall

PICK = "Kit.pick@1.0.0"


class Reply(NamedTuple):
    """What came back."""

    status: int
    body: Any
    headers: dict[bytes, bytes]


def definition(tool: str = "pick", version: str = "1.0.0", **members: Any) -> dict[str, Any]:
    """An MCP definition of the toolkit `Kit`."""
    described = {"name": f"Kit_{tool}", "description": "Pick one of several things.", "inputSchema": {"type": "object"}}
    return {**described, "_meta": {"dev.toolhall/id": f"Kit.{tool}@{version}"}, **members}


def place(*parts: str) -> str:
    """The path of a tool, and of what is below it."""
    return "/".join(["/api/tools", *(quote(part, safe="") for part in parts)])


async def manage(
    hall: Toolhall, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Reply:
    """Send a request as a server hands it on; bytes are sent as they are, everything else as JSON."""
    content = body if isinstance(body, bytes) else (b"" if body is None else json.dumps(body).encode())
    usual = {"host": "localhost", **({"content-type": "application/json"} if content else {})}
    request = AsgiRequest(hall, method, path, content, usual | (headers or {}), None)
    target = path.partition("?")[0]
    request.scope |= {"path": unquote(target), "raw_path": target.encode()}
    reply = await request.run()
    return Reply(reply.status, msgspec.json.decode(reply.body), dict(reply.headers.raw))


async def registered(hall: Toolhall, *definitions: dict[str, Any], headers: dict[str, str] | None = None) -> None:
    """Register these, which must work."""
    for each in definitions:
        reply = await manage(hall, "POST", "/api/tools", each, headers)
        assert reply.status == 201, reply


async def activated(hall: Toolhall, tool_id: str, headers: dict[str, str] | None = None) -> None:
    """Look at a tool, then activate it."""
    seen = (await manage(hall, "GET", place(tool_id), None, headers)).body["digests"]["document"]
    reply = await manage(hall, "POST", place(tool_id, "activate"), {"seen": seen}, headers)
    assert (reply.status, reply.body["state"]) == (200, "active"), reply
