"""Asks a hall over HTTP, without a socket."""

from typing import Any

import msgspec

from toolhall import Toolhall


async def asked(hall: Toolhall, path: str, method: str = "GET") -> tuple[int, Any]:
    """The status and the decoded body of the reply."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    bare, _, query = path.partition("?")
    host = [(b"host", b"localhost")]
    scope = {"type": "http", "method": method, "path": bare, "query_string": query.encode(), "headers": host}
    await hall(scope | {"client": None}, receive, send)
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])
