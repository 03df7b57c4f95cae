"""A client in this process that listens for changes of the list, in the newest way or in the older one."""

from collections.abc import Mapping

from tests.harness.asgi_client import AsgiRequest
from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake, headers_for, request_in
from tests.threats.guarded import Inside


class Listener:
    """Reads what a stream brings until it ends: Alice's, or with `headers` one of a session that is open already."""

    def __init__(self, hall: Inside, how: str, *, key: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._hall = hall
        self._how = how
        self._key = key or hall.keys["alice"]
        self._headers = headers
        self._request: AsgiRequest

    @property
    def sent(self) -> bytes:
        """What came so far."""
        return self._request.sent

    async def __aenter__(self) -> "Listener":
        method, headers, body = await (self._listen() if self._how == "listen" else self._get())
        bearer = {"authorization": f"Bearer {self._key}"}
        named = {"host": "hall.example", "content-type": "application/json"} | bearer | headers
        self._request = AsgiRequest(self._hall.hall.http, method, "/mcp", body, named).start()
        await self._request.started()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._request.disconnect()

    async def until(self, *texts: bytes) -> None:
        """Wait for one of these texts."""
        await self._request.until(*texts)

    async def ended(self) -> None:
        """Wait until the server ends the stream."""
        await self._request.ended()

    async def _listen(self) -> tuple[str, dict[str, str], bytes]:
        body = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        return "POST", dict(headers_for(body)), body

    async def _get(self) -> tuple[str, dict[str, str], bytes]:
        if self._headers is not None:
            return "GET", dict(self._headers), b""
        opened = await self._hall.send("POST", "/mcp", handshake(NOVEMBER), self._hall.bearer("alice"))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": NOVEMBER}
        greeting = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._hall.send("POST", "/mcp", greeting, session | self._hall.bearer("alice"))
        return "GET", session | {"accept": "text/event-stream"}, b""
