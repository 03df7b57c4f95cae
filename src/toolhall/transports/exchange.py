"""One HTTP request and the reply to it, for endpoints that do not want to know ASGI."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.transports.asgi import Headers, Receive, Send

_JSON = (b"content-type", b"application/json")


class Exchange:
    """What came, from whom, and the way back."""

    __slots__ = ("_send", "caller", "headers", "method", "path", "query", "receive")

    def __init__(self, method: str, headers: Headers, caller: Caller, receive: Receive, send: Send) -> None:
        self.method = method
        self.headers = headers
        self.caller = caller
        self.receive = receive
        self.path = ""
        self.query = b""
        self._send = send

    @property
    def parameters(self) -> dict[str, str]:
        """The query's parameters; of two with one name the last counts."""
        return dict(parse_qsl(self.query.decode("latin-1"), max_num_fields=20))

    async def reply(self, wire: Wire, *extra: tuple[bytes, bytes]) -> None:
        """Send a complete reply."""
        body = wire.body
        headers = [_JSON, (b"content-length", b"%d" % len(body)), *wire.headers, *extra]
        start = {"type": "http.response.start", "status": wire.status, "headers": headers if body else headers[1:]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, message: str, *extra: tuple[bytes, bytes]) -> None:
        """Send an error outside any dialect."""
        await self.reply(Wire(encode({"error": message}), status), *extra)

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status line and the headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
