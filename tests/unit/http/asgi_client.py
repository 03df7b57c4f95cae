"""Asks a hall over HTTP or a WebSocket, without a socket."""

import asyncio
import json
from typing import Any

import msgspec

from toolhall import Toolhall

FORWARDED = {"x-forwarded-for": "9.9.9.9"}  # whoever a proxy speaks for is nobody here


async def asked(
    hall: Toolhall, path: str, method: str = "GET", message: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the decoded body of the reply."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"" if message is None else json.dumps(message).encode()}

    async def send(part: Any) -> None:
        sent.append(part)

    bare, _, query = path.partition("?")
    usual = {"host": "localhost", "content-type": "application/json"}
    scope = {"type": "http", "method": method, "path": bare, "query_string": query.encode()}
    await hall(scope | {"headers": _pairs(usual | (headers or {})), "client": None}, receive, send)
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


async def asked_by_socket(hall: Toolhall, message: Any, headers: dict[str, str] | None = None) -> Any:
    """The reply to one message over the hub's WebSocket."""
    replied = asyncio.Event()
    sent: list[Any] = []
    coming: list[Any] = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": json.dumps(message)}]

    async def receive() -> Any:
        if coming:
            return coming.pop(0)
        await replied.wait()
        return {"type": "websocket.disconnect"}

    async def send(part: Any) -> None:
        sent.append(part)
        if part["type"] == "websocket.send":
            replied.set()

    scope = {"type": "websocket", "path": "/hub", "headers": _pairs({"host": "localhost"} | (headers or {}))}
    await hall(scope | {"client": None}, receive, send)
    return json.loads(sent[1]["text"])


def _pairs(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), said.encode()) for name, said in headers.items()]
