"""A client in this process that listens for changes of the list, in the newest way or in the older one."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.threats.guarded import Inside
from tests.threats.lines import MODERN, NOVEMBER, encoded, handshake, message, modern_headers

WAIT_SECONDS = 60.0


class Listener:
    """Reads what a stream brings until it ends: Alice's, or with `headers` one of a session that is open already."""

    def __init__(self, hall: Inside, how: str, *, key: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._hall = hall
        self._how = how
        self._key = key or hall.keys["alice"]
        self._headers = headers
        self.sent = b""
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> "Listener":
        method, headers, body = await (self._listen() if self._how == "listen" else self._get())
        bearer = {"authorization": f"Bearer {self._key}"}
        named = {"host": "hall.example", "content-type": "application/json"} | bearer | headers
        scope: Any = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "headers": [(name.lower().encode(), said.encode()) for name, said in named.items()],
            "client": ("192.0.2.1", 1),
        }
        self._body = [body]
        self._task = asyncio.create_task(self._hall.hall.http(scope, self._receive, self._send))
        async with asyncio.timeout(WAIT_SECONDS):
            await self._news.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, WAIT_SECONDS)

    async def until(self, *texts: bytes) -> None:
        """Wait for one of these texts."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(text in self.sent for text in texts):
                self._news.clear()
                await self._news.wait()

    async def ended(self) -> None:
        """Wait until the server ends the stream."""
        await asyncio.wait_for(asyncio.shield(self._task), WAIT_SECONDS)

    async def _listen(self) -> tuple[str, dict[str, str], bytes]:
        body = encoded(message(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        return "POST", dict(modern_headers(body)), body

    async def _get(self) -> tuple[str, dict[str, str], bytes]:
        if self._headers is not None:
            return "GET", dict(self._headers), b""
        opened = await self._hall.send("POST", "/mcp", handshake(NOVEMBER), self._hall.bearer("alice"))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
        greeting = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._hall.send("POST", "/mcp", greeting, session | self._hall.bearer("alice"))
        return "GET", session | {"accept": "text/event-stream"}, b""

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop()}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, part: Any) -> None:
        self.sent += part.get("body", b"")
        self._news.set()
