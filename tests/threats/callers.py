"""A hall in this process, to which several callers have a way; who calls is what the test says."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.harness.patience import patience
from tests.threats import hostile_tools
from tests.threats.lines import LEGACY, Answer, encoded, handshake, messages_of, modern_headers
from tests.threats.wire import Header, Reply
from toolhall import Toolhall
from toolhall.auth.authenticator import Headers, Scope
from toolhall.dialects.mcp.responses import ServerInfo
from toolhall.http.app import HttpApp
from toolhall.http.request import Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.mcp.http import McpHttp, StatefulHttp
from toolhall.mcp.request_state import RequestState
from toolhall.mcp.stateless import StatelessMcp
from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.stores.crypto import SealedBox

CALLER_HEADER = b"x-test-caller"


class HeaderAuthenticator:
    """Takes the caller from a header of the test's own."""

    def authenticate(self, scope: Scope, headers: Headers) -> Caller:
        """By a header that only these tests look at."""
        name = headers.get(CALLER_HEADER)
        return Caller(name.decode(), local=True) if name else ANONYMOUS


class InProcessHall:
    """A hall whose clock and key are the test's."""

    def __init__(self, clock: Callable[[], float], key: bytes = bytes(32)) -> None:
        self.hall = Toolhall(hostile_tools)
        server, shield = ServerInfo(name="hostile", version="0"), RequestValidator()
        self._legacy = StatefulHttp(self.hall.dispatcher, server, clock)
        modern = StatelessMcp(self.hall.dispatcher, server, RequestState(SealedBox(key), clock))
        self._mcp = McpHttp(self.hall.dispatcher, shield, modern, self._legacy)
        methods: Methods = {"POST": self._mcp, "GET": self._mcp.get_or_delete, "DELETE": self._mcp.get_or_delete}
        self.app = HttpApp(shield, HeaderAuthenticator(), {"/mcp": methods}, {}, self.hall.open)

    def close(self) -> None:
        """End everything."""
        self._mcp.close()
        self.hall.close()


class InProcessRequest:
    """One HTTP request in this process; its reply can be read while it is being written."""

    def __init__(
        self, hall_app: InProcessHall, caller: str | None, method: str, headers: list[Header], body: bytes
    ) -> None:
        pairs = [("host", "localhost"), ("content-type", "application/json"), *headers]
        named = [(CALLER_HEADER, caller.encode())] if caller else []
        self._scope: Scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "headers": [*((name.lower().encode(), said.encode("latin-1")) for name, said in pairs), *named],
            "client": ("127.0.0.1", 1),
        }
        self._body: list[bytes] = [body]
        self._disconnected = asyncio.Event()
        self._sent_more = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.sent = b""
        self._task = asyncio.create_task(self._run(hall_app))

    async def reply(self) -> Reply:
        """The whole reply."""
        await asyncio.wait_for(asyncio.shield(self._task), patience())
        return Reply(self.status, self.headers, self.sent)

    async def until(self, text: bytes) -> bytes:
        """What was sent so far, once it holds this text."""
        async with asyncio.timeout(patience()):
            while text not in self.sent:
                self._sent_more.clear()
                await self._sent_more.wait()
        return self.sent

    async def started(self) -> int:
        """The status, once it was sent."""
        async with asyncio.timeout(patience()):
            while not self.status:
                self._sent_more.clear()
                await self._sent_more.wait()
        return self.status

    async def disconnect(self) -> None:
        """Disconnect, and wait until the server has noticed."""
        self._disconnected.set()
        await asyncio.wait_for(self._task, patience())

    async def _run(self, hall_app: InProcessHall) -> None:
        await hall_app.app(self._scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop()}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode(), said.decode()) for name, said in message["headers"]]
        else:
            self.sent += message["body"]
            if not message.get("more_body"):
                self._disconnected.set()
        self._sent_more.set()


class McpCaller:
    """A caller that sends MCP messages in one revision to a hall in this process."""

    def __init__(self, hall_app: InProcessHall, name: str | None, revision: str) -> None:
        self._hall_app = hall_app
        self._name = name
        self.revision = revision
        self.session: str | None = None

    async def open(self) -> str:
        """The handshake of the older revisions."""
        reply = await self.request(encoded(handshake(self.revision)), headers=[]).reply()
        self.session = reply.header("mcp-session-id")
        assert self.session
        return self.session

    def request(self, body: bytes = b"", method: str = "POST", headers: list[Header] | None = None) -> InProcessRequest:
        """Begin a request, with the usual headers unless others are given."""
        return InProcessRequest(
            self._hall_app, self._name, method, self._usual(body) if headers is None else headers, body
        )

    async def ask(self, message: Any) -> Answer:
        """Send one message and wait for the answer."""
        reply = await self.request(encoded(message)).reply()
        events = (reply.header("content-type") or "").startswith("text/event-stream")
        found = messages_of(reply.body)[-1] if events else json.loads(reply.body or b"{}")
        return Answer(reply.status, found, reply.body)

    def _usual(self, body: bytes) -> list[Header]:
        if self.revision in LEGACY:
            return [("mcp-session-id", self.session or ""), ("mcp-protocol-version", self.revision)]
        return modern_headers(body)
