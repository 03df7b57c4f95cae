"""One HTTP request and the reply to it, for endpoints that do not want to know ASGI."""

from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote

from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.transports.asgi import Headers, Receive, Send
from toolhall.transports.shield import Turned

MOST_PARAMETERS = 20
_CODES = {
    400: "malformed",
    403: "denied",
    404: "not_found",
    405: "wrong_method",
    406: "not_acceptable",
    409: "conflict",
    413: "too_large",
    415: "wrong_type",
    421: "wrong_host",
}
_JSON = (b"content-type", b"application/json")


class Exchange:
    """What came, from whom, and the way back."""

    __slots__ = ("_send", "caller", "headers", "method", "path", "query", "raw_path", "receive")

    def __init__(self, method: str, headers: Headers, caller: Caller, receive: Receive, send: Send) -> None:
        self.method = method
        self.headers = headers
        self.caller = caller
        self.receive = receive
        self.path = ""
        self.raw_path = b""  # before anything was unescaped; empty where the server does not tell
        self.query = b""
        self._send = send

    @property
    def parameters(self) -> dict[str, str]:
        """The query's parameters; one that is there twice could be read in two ways, so it is refused."""
        try:
            pairs = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
        except ValueError:
            raise Turned(400, f"the query has more than {MOST_PARAMETERS} parameters") from None
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Turned(400, "a parameter of the query is there twice; leave out one")
        return found

    def below(self, prefix: str) -> list[str]:
        """The parts of the path below a prefix as the client cut it: a slash that it escaped belongs to a name."""
        raw = self.raw_path.decode("latin-1")
        # A server need not tell, or the hall is mounted below another path.
        if "%" not in raw or unquote(raw) != self.path:
            return self.path.removeprefix(prefix).split("/")
        return [unquote(part) for part in raw.removeprefix(prefix).split("/")]

    async def reply(self, wire: Wire, *extra: tuple[bytes, bytes]) -> None:
        """Send a complete reply."""
        body = wire.body
        headers = [_JSON, (b"content-length", b"%d" % len(body)), *wire.headers, *extra]
        start = {"type": "http.response.start", "status": wire.status, "headers": headers if body else headers[1:]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, message: str, *extra: tuple[bytes, bytes]) -> None:
        """Send an error outside any dialect, in the words of plain REST."""
        await self.reply(Wire(encode({"error": {"code": _CODES[status], "message": message}}), status), *extra)

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status line and the headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
