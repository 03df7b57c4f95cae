"""Requests of MCP 2026-07-28 to a hall in this process, as a program of this machine sends them."""

import json
from typing import Any

import msgspec

from tests.conformance import judge
from tests.harness.asgi_client import AsgiRequest
from tests.harness.mcp_messages import MODERN, modern_request
from toolhall import Toolhall

LOOPBACK = "127.0.0.1"


class McpError(Exception):
    """The error of a response."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code: int = error["code"]
        super().__init__(error["message"])


async def ask(hall: Toolhall, method: str, **params: Any) -> Any:
    """The result of one request; raises McpError."""
    message, headers = modern_request(method, params)
    sent = {"host": "localhost", "content-type": "application/json"}
    sent |= {name.lower(): value for name, value in headers.items()}
    reply = await AsgiRequest(hall, "POST", "/mcp", json.dumps(message).encode(), sent, LOOPBACK).run()
    decoded = msgspec.json.decode(reply.body)
    if "error" in decoded:
        raise McpError(decoded["error"])
    judge.check(decoded, MODERN, method)
    return decoded["result"]


async def listed(hall: Toolhall, method: str, member: str) -> list[Any]:
    """Everything on all pages of a list."""
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await ask(hall, method, **cursor)
        found += page[member]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}
