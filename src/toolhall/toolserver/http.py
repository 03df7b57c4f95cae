"""A tool server over HTTP: an ASGI application that a hall sends its calls to, and that anybody may ask how it is."""

from hmac import compare_digest

from toolhall.dialects.hub.messages import CoreRequest, write_error, write_response
from toolhall.dialects.hub.remote import Answering, RemoteCall, read_order
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, Unauthenticated
from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.runners.checkup import UNHEALTHY
from toolhall.toolserver.desk import MOST_CALLS, Desk
from toolhall.toolserver.outgoing import Outgoing
from toolhall.transports.asgi import AsgiMessage, Headers, Receive, Scope, Send
from toolhall.transports.busy import busy
from toolhall.transports.exchange import Exchange
from toolhall.transports.identity import NOBODY
from toolhall.transports.overload import NoSlot, RequestLimiter
from toolhall.transports.presence import WhilePresent
from toolhall.transports.refusals import refusal
from toolhall.transports.shield import MOST_HEADERS, Shield, Turned

HUB, HEALTH, LIVE = "/hub", "/health", "/health/live"
_METHODS = {HUB: "POST", HEALTH: "GET", LIVE: "GET"}
_LINES = ((b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store"))
_ALIVE = Wire(b'{"status":"alive"}')
_HALL = Caller("hall", proof="key")
_SINGLE = {b"authorization", b"content-type", b"content-length", b"content-encoding"}


class ToolServer:
    """Whoever calls must know the token, which only the hall was told; it names no host that it answers for."""

    def __init__(self, desk: Desk, token: str, max_body: int) -> None:
        # The desk says itself when it is full, in words that let the hall go elsewhere; answers come besides.
        self.admission = RequestLimiter(8 * MOST_CALLS)  # one caller, the hall, gets half of that
        self._desk = desk
        self._credential = b"Bearer " + token.encode()
        self._shield = Shield(max_body=max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, path = Exchange(scope["method"], {}, NOBODY, receive, send), scope["path"]
        exchange.admission, exchange.scope, exchange.path = self.admission, scope, path
        try:
            exchange.headers = _headers(scope)
            expected = _METHODS.get(path)
            if expected is None:
                raise Turned(404, f"there is nothing here; this is a tool server, which has {', '.join(_METHODS)}")
            if exchange.method != expected:
                await exchange.refuse(405, f"use {expected}", (b"allow", expected.encode()))
            elif path == HUB:
                await self._hub(exchange)
            else:
                await exchange.admit()
                await exchange.reply(_ALIVE if path == LIVE else await self._health())
        except NoSlot:
            await exchange.reply(busy(path))
        except Turned as turned:
            await exchange.refuse(turned.status, turned.message, (b"connection", b"close"))
        finally:
            exchange.leave()

    async def _health(self) -> Wire:
        found = await self._desk.health()
        return Wire(encode(found), 503 if found["status"] == UNHEALTHY else 200)

    async def _hub(self, exchange: Exchange) -> None:
        if not compare_digest(exchange.headers.get(b"authorization", b""), self._credential):
            unknown = Unauthenticated("this tool server answers its hall only, which knows the token")
            await exchange.reply(refusal(HUB, unknown), (b"connection", b"close"))
            return
        exchange.caller = _HALL
        body = await self._shield.body(exchange.headers, exchange.receive)
        await exchange.admit()
        try:
            order = read_order(body)
        except Malformed as error:
            await exchange.reply(refusal(HUB, error))
            return
        match order:
            case RemoteCall():
                await self._call(exchange, order, len(body))
            case Answering():
                await exchange.reply(self._answer(order))
            case CoreRequest():
                await exchange.reply(await self._desk.manage(order))

    def _answer(self, answering: Answering) -> Wire:
        request = CoreRequest(None, "", {})
        if self._desk.answer(answering):
            return write_response(request, {"status": "ok"})
        return write_error(request, NotFound("no call here waits for this answer"))

    async def _call(self, exchange: Exchange, call: RemoteCall, size: int) -> None:
        """One reply if the tool tells nothing, else a line for each message; the call ends with its connection."""
        stream = _Stream(exchange)
        outgoing = Outgoing(stream.send)
        try:
            wire = await WhilePresent(exchange, self._desk.run(call, size, outgoing))
            if wire is None:
                return
            if outgoing.begun:
                await outgoing.finish()
                await exchange.part(wire.body + b"\n", more=False)
            else:
                await exchange.reply(wire)
        finally:
            await outgoing.stop()


class _Stream:
    """A reply that begins with its first line."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._started = False

    async def send(self, message: bytes) -> None:
        if not self._started:
            self._started = True
            await self._exchange.start(200, _LINES)
        await self._exchange.part(message + b"\n", more=True)


def _headers(scope: Scope) -> Headers:
    """Each once, where two readers could disagree."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    if len(pairs) > MOST_HEADERS:
        raise Turned(431, f"there are more than {MOST_HEADERS} headers; send fewer")
    headers = dict(pairs)
    if len(headers) != len(pairs) and [name for name, _ in pairs if name in _SINGLE] != [
        name for name in headers if name in _SINGLE
    ]:
        raise Turned(400, "a header that may be there once is there twice")
    return headers


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message: AsgiMessage = await receive()
        if message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "lifespan.startup.complete"})
