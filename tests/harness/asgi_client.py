"""Requests to an ASGI application in this process, without a socket."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import msgspec

from tests.harness.http_client import NO_HEADERS, Response
from tests.harness.patience import patience

NOBODY = "192.0.2.1"  # an address that proves nothing
FORWARDED = {"x-forwarded-for": "9.9.9.9"}  # a client behind a proxy is anonymous


class AsgiRequest:
    """One HTTP request, sent by `run` or in a task by `start`; its response can be read while it is being written.

    `headers` are all that is sent; `client` is the address that the request comes from, None for one that is not known.
    The path is the decoded one; `scope` can be changed before it is sent.
    """

    _task: "asyncio.Task[None]"

    def __init__(
        self,
        app: Any,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        client: str | None = NOBODY,
    ) -> None:
        target, _, query = path.partition("?")
        self._app = app
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": target,
            "query_string": query.encode(),
            "headers": _pairs(headers),
            "client": None if client is None else (client, 1),
        }
        self.status = 0
        self.headers = httpx2.Headers()
        self.sent = b""  # of the body, so far
        self._body = [body]
        self._gone = asyncio.Event()
        self._done = asyncio.Event()
        self._news = asyncio.Event()

    async def run(self) -> Response:
        """Send it; the whole response."""
        await self._app(self.scope, self._receive, self._send)
        return self._response()

    def start(self) -> "AsgiRequest":
        """Send it in a task."""
        self._task = asyncio.create_task(self._app(self.scope, self._receive, self._send))
        return self

    async def reply(self) -> Response:
        """The whole response."""
        await self.ended()
        return self._response()

    async def started(self) -> int:
        """The status, once it was sent."""
        await self._until(lambda: self.status)
        return self.status

    async def until(self, *texts: bytes) -> bytes:
        """What was sent so far, once it holds one of these texts."""
        await self._until(lambda: any(text in self.sent for text in texts))
        return self.sent

    async def ended(self) -> None:
        """Wait until the application has ended."""
        await asyncio.wait_for(asyncio.shield(self._task), patience())

    async def disconnect(self) -> None:
        """Disconnect, and wait until the application has noticed."""
        self._gone.set()
        await asyncio.wait_for(self._task, patience())

    def _response(self) -> Response:
        assert self._done.is_set(), "the response has no end"
        return Response(self.status, self.headers, self.sent)

    async def _until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(patience()):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop()}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, part: Any) -> None:
        if part["type"] == "http.response.start":
            assert not self.status, "a second response"
            self.status, self.headers = part["status"], httpx2.Headers(list(part["headers"]))
        else:
            self.sent += part.get("body", b"")
            if not part.get("more_body"):
                self._done.set()
                self._gone.set()
        self._news.set()


async def send(
    app: Any,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] = NO_HEADERS,
    client: str | None = None,
) -> Response:
    """Send one request with these headers besides `host`, and read the whole response."""
    return await AsgiRequest(app, method, path, body, {"host": "localhost", **headers}, client).run()


async def post_json(
    app: Any, path: str, body: bytes, headers: Mapping[str, str] = NO_HEADERS, *, client: str | None = NOBODY
) -> Response:
    """Send a body as JSON by POST, from an address that proves nothing unless the test says so."""
    usual = {"content-type": "application/json", "content-length": str(len(body))}
    return await send(app, "POST", path, body, usual | dict(headers), client)


async def send_json(
    app: Any, path: str, method: str = "GET", message: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Send a message, if there is one; the status and the decoded body of the response."""
    body = b"" if message is None else json.dumps(message).encode()
    reply = await send(app, method, path, body, {"content-type": "application/json", **(headers or {})})
    return reply.status, msgspec.json.decode(reply.body)


async def send_to_hub(app: Any, message: Any, headers: Mapping[str, str] | None = None) -> Any:
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

    scope = {"type": "websocket", "path": "/hub", "headers": _pairs({"host": "localhost"} | dict(headers or {}))}
    await app(scope | {"client": None}, receive, send)
    return json.loads(sent[1]["text"])


def _pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
