"""A connection of Toolhall's own server without a socket: bytes in pieces go in, requests and responses come out."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import httptools

from toolhall.auth.authenticator import Receive, Scope, Send
from toolhall.auth.profiles import LocalAuthenticator
from toolhall.http.app import HttpApp
from toolhall.http.request import HttpRequest, Methods, RequestHead, ServerExchange
from toolhall.http.request_guard import RequestRejected, RequestValidator
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionLimiter
from toolhall.server.protocol import HttpProtocol
from toolhall.server.request_cycle import RequestCycle

MAX_BODY = 20_000
TURNS = 25  # of the event loop: more than any request here needs
# A timeout of ConnectionTimeouts is over at each of these: between requests, of a head, of a body.
TIMEOUT_CHECKS = (0.0, 7.0, 14.0, 45.0)
SPECIAL_BODIES = (b"fail", b"silent", b"refuse", b"stream", b"wait")  # what ObservedApp does with each: see there
UPGRADE_OFFER = b"Connection: upgrade\r\nUpgrade: h2c\r\n"
_DISGUISED_OFFER = b"Xonnection: upgrade\r\nXpgrade: h2c\r\n"
_CLIENT = ("127.0.0.1", 50_000)
_SERVER = ("127.0.0.1", 8_000)


class Piece(NamedTuple):
    """Bytes that arrive in one read; `settle`: the server answers what it can before the next ones arrive."""

    data: bytes
    settle: bool = True


class SeenRequest(NamedTuple):
    """A request as the application sees it; the length is that of the body."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]  # without Content-Length: known heads have that of the first request
    body: bytes | None = None  # None if it was not read, or not complete


def seen_head(scope: Scope) -> SeenRequest:
    """The head of a request."""
    query = scope.get("query_string", b"")
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return SeenRequest(scope["method"], target, without_length(scope["headers"]))


def without_length(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, value) for name, value in headers if name != b"content-length")


async def call_in_loop(call: Callable[[], None]) -> None:
    """Call this as a transport does: in a callback of the event loop, while no task is current."""
    asyncio.get_running_loop().call_soon(call)
    await asyncio.sleep(0)


class MemoryTransport(asyncio.Transport):
    """A transport without a socket: keeps what is written until it is closed."""

    def __init__(self) -> None:
        super().__init__({"peername": _CLIENT, "sockname": _SERVER})
        self.written = bytearray()
        self.closed = self.aborted = self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep the bytes; like a real transport, drop them after `close`."""
        if not self.closed:
            self.written += data

    def is_closing(self) -> bool:
        """Whether the connection was closed."""
        return self.closed

    def close(self) -> None:
        """Close the connection."""
        self.closed = True

    def abort(self) -> None:
        """Close the connection at once."""
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        """Deliver nothing more."""
        self.paused = True

    def resume_reading(self) -> None:
        """Deliver again."""
        self.paused = False

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""


class ObservedApp(HttpApp):
    """The real HttpApp with an endpoint that answers as the body says; notes what reaches it, and by which way."""

    def __init__(self) -> None:
        self._body_validator = validator = RequestValidator(max_body=MAX_BODY)
        endpoints: dict[str, Methods] = {
            "/mcp": {"POST": self._answer, "GET": self._early},
            "/early": {"POST": self._early},
        }
        super().__init__(validator, LocalAuthenticator(), endpoints, {}, self._start)
        self.opened = True
        self.requests: list[SeenRequest] = []
        self.served_plainly = 0  # requests that were served without ASGI
        self.parsed: list[object] = []  # requests that were parsed
        self.recognized = 0  # requests that were served by a known head, without the parser

    async def _start(self) -> None:
        """There is nothing to start."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that the parser has read."""
        self.requests.append(seen_head(scope))
        await super().__call__(scope, receive, send)

    async def serve(self, head: RequestHead, body: bytes, exchange: ServerExchange) -> None:
        """Serve a plain request."""
        self.requests.append(seen_head(head.scope))
        self.served_plainly += 1
        self.recognized += exchange not in self.parsed
        await super().serve(head, body, exchange)

    async def _answer(self, request: HttpRequest) -> None:
        number = len(self.requests) - 1  # a connection serves one request at a time
        body = request.body or await self._body_validator.read_body(request.headers, request.receive)
        self.requests[number] = self.requests[number]._replace(body=body)
        match body:
            case b"fail":
                raise RuntimeError("as the test says")
            case b"silent":
                return
            case b"refuse":
                raise RequestRejected(400, "as the test says")
            case b"stream":
                await request.send_headers(200, [(b"content-type", b"text/plain")])
                await request.send_body(b"one", more=True)
                await request.send_body(b"two", more=False)
                return
            case b"wait":
                for _ in range(3):
                    await asyncio.sleep(0)
            case _:
                pass
        answer = {"path": request.path, "query": request.query.decode("latin-1"), "body": body.decode("latin-1")}
        await request.reply(WireResponse(encode(answer)))

    async def _early(self, request: HttpRequest) -> None:
        """Answer before the body is read."""
        await request.reply(WireResponse(b'{"early":true}'))


class ObservedProtocol(HttpProtocol):
    """HttpProtocol that notes which requests were parsed."""

    def __init__(self, context: ServerContext, app: ObservedApp) -> None:
        super().__init__(context)
        self._app = app

    def on_request(self, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> RequestCycle:
        """Take a request of the parser."""
        cycle = super().on_request(scope, keep_alive=keep_alive, expects_continue=expects_continue)
        self._app.parsed.append(cycle)
        return cycle


class ParserOnly:
    """The same application without `prepare`: the server parses every request of it."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app

    @property
    def limiter(self) -> ConcurrencyLimiter:
        """The limiter of concurrent requests."""
        return self._app.limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)


class _Settings(NamedTuple):
    max_body_bytes: int = MAX_BODY
    max_frame_bytes: int = MAX_BODY
    access_log: bool = False


class _Served(NamedTuple):
    http: Any
    config: _Settings = _Settings()


class Outcome(NamedTuple):
    """What came of a connection: requests, responses, and the state that it ended in."""

    requests: list[SeenRequest]
    responses: bytes
    closed: bool
    aborted: bool
    is_reading: bool
    waiting: int  # requests that are being answered
    pipelined: int
    after_timeouts: list[tuple[bool, bytes]]  # closed, and what was written; see TIMEOUT_CHECKS
    left: int  # slots and tasks that are still taken when the connection has ended
    awaits_body: bool  # a request with a known head was recognized, and its body is incomplete


class MemoryConnection:
    """One connection to an ObservedApp; must be used inside an event loop."""

    def __init__(self, *, known_heads: bool = True) -> None:
        self.app = ObservedApp()
        served = _Served(self.app if known_heads else ParserOnly(self.app))
        self.context = ServerContext(served, ConnectionLimiter())
        self.protocol = ObservedProtocol(self.context, self.app)
        self.transport = MemoryTransport()
        self.protocol.connection_made(self.transport)

    async def feed(self, pieces: Sequence[Piece]) -> None:
        """Deliver the pieces as a real transport would: nothing after the end, and nothing while reading is paused."""
        left = deque(pieces)
        while left and not (self.transport.paused or self.transport.closed):
            await call_in_loop(lambda: self._deliver(left))
            await self.settle()
        await self.settle()

    def _deliver(self, left: "deque[Piece]") -> None:
        """Deliver pieces up to the first after which the server is to settle, or has to."""
        while left and not (self.transport.paused or self.transport.closed):
            piece = left.popleft()
            self.protocol.data_received(piece.data)
            if piece.settle:
                return

    async def settle(self) -> None:
        """Let the server do whatever it can do without further bytes."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def finish(self) -> Outcome:
        """Compare the state with time that passes, then end the connection."""
        protocol, transport, context = self.protocol, self.transport, self.context
        requests = list(self.app.requests)
        awaits_body = protocol.partial is not None
        responses, closed, aborted = bytes(transport.written), transport.closed, transport.aborted
        is_reading, waiting, pipelined = not (transport.paused or closed), len(context.tasks), len(protocol.pipeline)
        after_timeouts: list[tuple[bool, bytes]] = []
        for now in TIMEOUT_CHECKS:
            protocol.check_timeouts(now)
            after_timeouts.append((transport.closed, bytes(transport.written[len(responses) :])))
        protocol.connection_lost(None)
        await self.settle()
        left = len(context.tasks) + len(context.connections) + self.app.limiter.callers.in_use
        return Outcome(
            requests,
            responses,
            closed,
            aborted,
            is_reading,
            waiting,
            pipelined,
            after_timeouts,
            left,
            awaits_body,
        )


async def run_connection(pieces: Sequence[Piece], *, known_heads: bool) -> tuple[Outcome, int]:
    """Feed a connection; what came of it, and how many requests were served by a known head."""
    connection = MemoryConnection(known_heads=known_heads)
    await connection.feed(pieces)
    return await connection.finish(), connection.app.recognized


class ParsedRequests:
    """The requests that httptools alone finds in the same pieces; set up as the server does."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.requests: list[SeenRequest] = []
        self._headers: list[tuple[bytes, bytes]] = []
        self._target = self._body = b""
        parser: Any = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._method: Callable[[], bytes] = parser.get_method
        # httptools takes a request that offers another protocol for one without a body; to a server that supports
        # none, such a request is what it is without the offer. So the offer is disguised, and its headers left out.
        stream = b"".join(piece.data for piece in pieces).replace(UPGRADE_OFFER, _DISGUISED_OFFER)
        with contextlib.suppress(httptools.HttpParserError):
            parser.feed_data(stream)

    def on_message_begin(self) -> None:
        self._headers, self._target, self._body = [], b"", b""

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in (b"xonnection", b"xpgrade"):
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        url = httptools.parse_url(self._target)
        url.path.decode("ascii")  # the server answers 400 if it is not ASCII
        target = url.path + (b"?" + url.query if url.query else b"")
        self.requests.append(SeenRequest(self._method().decode("ascii"), target, without_length(self._headers)))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body = self._body.replace(_DISGUISED_OFFER, UPGRADE_OFFER)
        self.requests[-1] = self.requests[-1]._replace(body=body)
