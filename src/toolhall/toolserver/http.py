"""`ToolServerApp`: the ASGI application of a tool server, for calls from its hall and for health checks.

A call without events gets one JSON response. With events the response is NDJSON, one line for each message, the
tool_response last. Closing the connection cancels the call.
"""

from hmac import compare_digest

from toolhall.auth.authenticator import Headers, Receive, Scope, Send
from toolhall.dialects.hub.call_messages import AnswerMessage, RemoteCall, read_hub_message
from toolhall.dialects.hub.messages import HubRequest, write_error, write_response
from toolhall.execution.health_checks import UNHEALTHY
from toolhall.http.call_context import cancel_on_disconnect
from toolhall.http.errors import busy_response, error_response
from toolhall.http.request import SERVER_EXTENSION, HttpRequest
from toolhall.http.request_guard import MAX_HEADERS, RequestRejected, RequestValidator
from toolhall.http.request_slots import ConcurrencyLimiter, NoSlot
from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.model.errors import Malformed, NotFound, Unauthenticated
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.toolserver.handler import MAX_CALLS, CallHandler
from toolhall.toolserver.hub_link import OutgoingQueue

HUB_PATH, HEALTH_PATH, LIVE_PATH = "/hub", "/health", "/health/live"
_METHODS = {HUB_PATH: "POST", HEALTH_PATH: "GET", LIVE_PATH: "GET"}
_NDJSON_HEADERS = ((b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store"))
_ALIVE = WireResponse(b'{"status":"alive"}')
_HALL_CALLER = Caller("hall", proof="key")
_SINGLE_HEADERS = {b"authorization", b"content-type", b"content-length", b"content-encoding"}


class ToolServerApp:
    """Serves /hub, which requires the token that only the hall knows, and the health paths. Any Host is accepted."""

    def __init__(self, handler: CallHandler, token: str, max_body: int) -> None:
        # Above MAX_CALLS the handler refuses calls as not started, so that the hall tries another replica. The limit
        # here is larger, because answers need slots too, and one caller, the hall, gets half of them.
        self.limiter = ConcurrencyLimiter(8 * MAX_CALLS)
        self._handler = handler
        self._credential = b"Bearer " + token.encode()
        self._validator = RequestValidator(max_body=max_body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, path = HttpRequest(scope, {}, ANONYMOUS, receive, send), scope["path"]
        request.limiter, request.path = self.limiter, path
        request.extension = scope.get(SERVER_EXTENSION)
        try:
            request.headers = _headers(scope)
            expected = _METHODS.get(path)
            if expected is None:
                raise RequestRejected(
                    404, f"there is nothing here; this is a tool server, which has {', '.join(_METHODS)}"
                )
            if request.method != expected:
                await request.refuse(405, f"use {expected}", (b"allow", expected.encode()))
            elif path == HUB_PATH:
                await self._hub(request)
            else:
                await request.acquire_slot()
                await request.reply(_ALIVE if path == LIVE_PATH else await self._health())
        except NoSlot:
            await request.reply(busy_response(path))
        except RequestRejected as rejected:
            await request.refuse(rejected.status, rejected.message, (b"connection", b"close"))
        finally:
            request.release_slot()

    async def _health(self) -> WireResponse:
        health = await self._handler.health()
        return WireResponse(encode(health), 503 if health["status"] == UNHEALTHY else 200)

    async def _hub(self, request: HttpRequest) -> None:
        if not compare_digest(request.headers.get(b"authorization", b""), self._credential):
            unknown = Unauthenticated("this tool server answers its hall only, which knows the token")
            await request.reply(error_response(HUB_PATH, unknown), (b"connection", b"close"))
            return
        request.caller = _HALL_CALLER
        body = await self._validator.read_body(request.headers, request.receive)
        await request.acquire_slot()
        try:
            message = read_hub_message(body)
        except Malformed as error:
            await request.reply(error_response(HUB_PATH, error))
            return
        match message:
            case RemoteCall():
                await self._call(request, message, len(body))
            case AnswerMessage():
                await request.reply(self._answer(message))
            case HubRequest():
                await request.reply(await self._handler.handle_request(message))

    def _answer(self, answer: AnswerMessage) -> WireResponse:
        request = HubRequest(None, "", {})
        if self._handler.deliver_answer(answer):
            return write_response(request, {"status": "ok"})
        return write_error(request, NotFound("no call here waits for this answer"))

    async def _call(self, request: HttpRequest, call: RemoteCall, size: int) -> None:
        """Run a call: one JSON response, or NDJSON from the first event on; a disconnect cancels it."""
        stream = _NdjsonStream(request)
        outgoing = OutgoingQueue(stream.send)
        try:
            wire = await cancel_on_disconnect(request, self._handler.run_call(call, size, outgoing))
            if wire is None:
                return
            if outgoing.has_started:
                await outgoing.flush()
                await request.send_body(wire.body + b"\n", more=False)
            else:
                await request.reply(wire)
        finally:
            await outgoing.cancel()


class _NdjsonStream:
    """An NDJSON response whose headers are sent with its first line."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._started = False

    async def send(self, message: bytes) -> None:
        if not self._started:
            self._started = True
            await self._request.send_headers(200, _NDJSON_HEADERS)
        await self._request.send_body(message + b"\n", more=True)


def _headers(scope: Scope) -> Headers:
    """The headers; raises RequestRejected for too many, and for repeated ones that would be ambiguous."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    if len(pairs) > MAX_HEADERS:
        raise RequestRejected(431, f"there are more than {MAX_HEADERS} headers; send fewer")
    headers = dict(pairs)
    if len(headers) != len(pairs) and [name for name, _ in pairs if name in _SINGLE_HEADERS] != [
        name for name in headers if name in _SINGLE_HEADERS
    ]:
        raise RequestRejected(400, "a header that may be there once is there twice")
    return headers
