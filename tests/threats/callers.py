"""A hall in this process, to which several callers have a way; who calls is what the test says."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.harness.asgi_client import AsgiRequest
from tests.harness.http_client import Header
from tests.harness.mcp_messages import McpAnswer, encoded, handshake, session_headers
from tests.threats import hostile_tools
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

    def local_caller(self, scope: Any, headers: Any) -> Caller | None:
        return None

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], Caller]:
        return partial(self.authenticate, scope, headers)

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
        self.session = reply.headers.get("mcp-session-id")
        assert self.session
        return self.session

    def request(self, body: bytes = b"", method: str = "POST", headers: list[Header] | None = None) -> AsgiRequest:
        """Begin a request, with the usual headers unless others are given."""
        chosen = session_headers(self.revision, body, self.session or "") if headers is None else headers
        usual = [("host", "localhost"), ("content-type", "application/json"), *chosen]
        named = {CALLER_HEADER.decode(): self._name} if self._name else {}
        return AsgiRequest(self._hall_app.app, method, "/mcp", body, dict(usual) | named, "127.0.0.1").start()

    async def ask(self, message: Any) -> McpAnswer:
        """Send one message and wait for the answer."""
        reply = await self.request(encoded(message)).reply()
        return McpAnswer((reply.messages or [{}])[-1], status=reply.status, raw=reply.body)
