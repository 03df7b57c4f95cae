"""`HttpRequest`: one HTTP request, its caller, its concurrency slot, and the methods that send the response.

`ServerExtension` is what Toolhall's own server offers beyond ASGI: a complete response in one write, and a callback
on disconnect; with other ASGI servers `HttpRequest` falls back to plain ASGI.

`defer_slot_until_body` replaces `receive` of a request whose body is incomplete, so that the slot is taken with the
last chunk. Bodies of anonymous callers have a deadline of their own and can be dropped; see `http.request_slots`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from toolhall.auth.authenticator import (
    AsgiMessage,
    AuthenticationFailed,
    Headers,
    Receive,
    RequestAuthenticator,
    Scope,
    Send,
    resolve_caller,
)
from toolhall.http.errors import AuthChallenges
from toolhall.http.request_guard import RequestRejected, has_body
from toolhall.http.request_slots import ConcurrencyLimiter, IncompleteBodies, NoSlot, ReleasableSlot, slot_key
from toolhall.model.caller import Caller
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse

MAX_QUERY_PARAMETERS = 20
T = TypeVar("T")
_ERROR_CODES = {
    400: "malformed",
    403: "denied",
    404: "not_found",
    405: "wrong_method",
    406: "not_acceptable",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "wrong_type",
    421: "wrong_host",
    431: "too_large",
}
_JSON_TYPE = (b"content-type", b"application/json")
SERVER_EXTENSION = "toolhall.own"  # the key in an ASGI scope
_CHALLENGED = (401, 403)
ANONYMOUS_BODY_SECONDS = 5.0  # for the whole body
_BODY_METHODS = ("POST", "PUT", "PATCH")


class ServerExtension(Protocol):
    """What Toolhall's own server offers beyond ASGI, in the scope under SERVER_EXTENSION."""

    more_body: bool  # whether the body is incomplete

    def send_json(self, status: int, body: bytes) -> bool:
        """Send a complete JSON response in one write; False if it could not."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server, which asyncio finds by a system call each time."""
        ...

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this when the client disconnects; None removes the callback."""
        ...

    def pause_reading(self) -> None:
        """Read nothing from the client for a moment; it was told to retry later, and may not obey."""
        ...


class WebSocketExtension(Protocol):
    """What Toolhall's own server offers for a WebSocket beyond ASGI, in the scope under SERVER_EXTENSION."""

    def take_text(self, take: Callable[[bytes], bool] | None) -> None:
        """Offer each text message to this function first; what it returns False for is received as usual."""
        ...

    def send_text(self, message: bytes) -> bool:
        """Send a text message without waiting; False if `send` has to."""
        ...


class ServerExchange(ServerExtension, Protocol):
    """One request and its response at Toolhall's own server, also as ASGI's two callables."""

    async def receive(self) -> AsgiMessage:
        """The next message of the request."""
        ...

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the response."""
        ...


class RequestHead:
    """A request line and headers that were validated, and what follows from them alone.

    Toolhall's own server keeps heads by their bytes, but for the digits of Content-Length, and passes each of them to
    `HttpApp.serve` again with the next body. A head proves nothing about the caller, except where the connection alone
    does (`local_caller`): credentials are verified for every request (`authenticate`).
    """

    __slots__ = (
        "_derived",
        "authenticate",
        "endpoint",
        "headers",
        "local_caller",
        "max_body",
        "path",
        "query",
        "raw_path",
        "scope",
    )

    def __init__(
        self, scope: Scope, headers: Headers, endpoint: "Endpoint", authenticator: RequestAuthenticator, max_body: int
    ) -> None:
        self.scope = scope
        self.headers = headers  # with the content length of the first request that had this head
        self.endpoint = endpoint
        self.local_caller = authenticator.local_caller(scope, headers)
        self.authenticate = authenticator.prepare(scope, headers)
        self.max_body = max_body
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or b""
        self.query: bytes = scope.get("query_string", b"")
        self._derived: dict[object, Any] = {}

    def derived(self, compute: Callable[[Headers], T]) -> T:
        """Return what this computes from the headers, which is kept as long as the head."""
        try:
            return self._derived[compute]  # type: ignore[no-any-return]
        except KeyError:
            found = self._derived[compute] = compute(self.headers)
            return found


class HttpRequest(msgspec.Struct, eq=False):
    """One HTTP request: headers, caller, concurrency slot, and the methods that send the response."""

    scope: Scope
    headers: Headers
    caller: Caller
    receive: Receive
    _send: Send
    body: bytes | None = None  # if it came with the head, which was validated; else `receive` has it
    extension: ServerExtension | None = None  # None: another ASGI server
    head: RequestHead | None = None  # None: one that the server does not keep
    path: str = ""
    raw_path: bytes = b""  # before unescaping; empty if the server does not provide it
    query: bytes = b""
    limiter: ConcurrencyLimiter | None = None  # None: no limit
    challenges: AuthChallenges | None = None  # completes 401 and 403
    authenticator: RequestAuthenticator | None = None  # of the caller
    slot: ReleasableSlot | None = None  # the pool that it holds a slot of, under `slot_key`
    slot_key: str = ""
    extra_headers: tuple[tuple[bytes, bytes], ...] = ()  # of the response, such as a renewed cookie

    def derived(self, compute: Callable[[Headers], T]) -> T:
        """Return what this computes from the headers; once for all requests with the same head."""
        return compute(self.headers) if self.head is None else self.head.derived(compute)

    @property
    def method(self) -> str:
        """The HTTP method."""
        method: str = self.scope["method"]
        return method

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters; RequestRejected if one is there twice, because readers would disagree on it."""
        try:
            pairs = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_QUERY_PARAMETERS)
        except ValueError:
            raise RequestRejected(400, f"the query has more than {MAX_QUERY_PARAMETERS} parameters") from None
        parameters = dict(pairs)
        if len(parameters) != len(pairs):
            raise RequestRejected(400, "a parameter of the query is there twice; leave out one")
        return parameters

    def has_entity(self, etag: bytes) -> bool:
        """Whether the client says by If-None-Match that it has the entity with this tag."""
        tags = self.headers.get(b"if-none-match", b"").split(b",")
        return any(each.strip().removeprefix(b"W/") in (etag, b"*") for each in tags)

    def path_segments(self, prefix: str) -> list[str]:
        """Return the segments below a prefix, split before unescaping: `%2F` is a part of a name."""
        raw = self.raw_path.decode("latin-1")
        # The server need not provide the raw path, or the hall is mounted below another one.
        if "%" not in raw or unquote(raw) != self.path:
            return self.path.removeprefix(prefix).split("/")
        return [unquote(part) for part in raw.removeprefix(prefix).split("/")]

    def hold_slot(self, slot: ReleasableSlot) -> None:
        """Note that the request holds a slot of this pool under its caller's key."""
        caller = self.caller
        self.slot, self.slot_key = slot, caller.id if caller.address is None else caller.rate_limit_key

    async def acquire_slot(self) -> None:
        """Take a slot, waiting a moment if necessary; NoSlot if there is none for the caller."""
        if self.limiter is None:
            return
        slot = self.limiter.try_acquire(self.caller, self.path) or await self.limiter.acquire(self.caller)
        if slot is None:
            raise NoSlot
        self.hold_slot(slot)

    async def switch_caller(self, caller: Caller) -> None:
        """Replace the slot by one of this caller, whom the message authenticated; NoSlot if there is none."""
        if slot_key(caller) != slot_key(self.caller):
            self.release_slot()
            self.caller = caller
            await self.acquire_slot()

    def detach_slot(self) -> Callable[[], None]:
        """Transfer the slot to work that outlives the request; return the function that releases it."""
        slot, self.slot = self.slot, None
        return _noop if slot is None else partial(slot.release, self.slot_key)

    def release_slot(self) -> None:
        """Release the slot, if the request still holds one."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release(self.slot_key)

    def try_reply(self, wire: WireResponse) -> bool:
        """Send a complete response without waiting if server and response allow that; else `reply` has to."""
        extension, body = self.extension, wire.body
        if extension is None or wire.headers or not body or wire.status in _CHALLENGED:
            return False
        slot, self.slot = self.slot, None  # as `release_slot`: nearly every request comes by
        if slot is not None:
            slot.release(self.slot_key)
        return extension.send_json(wire.status, body)

    async def reply(self, wire: WireResponse, *extra: tuple[bytes, bytes]) -> None:
        """Send a complete response; the slot is released first, so that the next request finds it free."""
        self.release_slot()
        if wire.status in _CHALLENGED and self.challenges is not None:
            wire = self.challenges.with_metadata(wire, self.scope, self.headers)
        body, extra = wire.body, extra + self.extra_headers
        if not (wire.headers or extra) and body:
            extension = self.extension
            if extension is not None and extension.send_json(wire.status, body):
                return
        headers = [_JSON_TYPE, (b"content-length", b"%d" % len(body)), *wire.headers, *extra]
        start = {"type": "http.response.start", "status": wire.status, "headers": headers if body else headers[1:]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, message: str, *extra: tuple[bytes, bytes]) -> None:
        """Send an error outside any dialect, in REST's error format."""
        await self.reply(
            WireResponse(encode({"error": {"code": _ERROR_CODES[status], "message": message}}), status), *extra
        )

    async def is_still_authenticated(self) -> bool:
        """Whether the credential is still valid; it may expire or be revoked while a stream is open."""
        try:
            return self.authenticator is None or bool(
                await resolve_caller(self.authenticator.authenticate(self.scope, self.headers))
            )
        except AuthenticationFailed:
            return False

    def on_disconnect(self, callback: Callable[[], None] | None) -> bool:
        """Call this on disconnect (None: no longer); False if the server cannot, and a task must watch instead."""
        if self.extension is not None:
            self.extension.on_disconnect(callback)
        return self.extension is not None

    async def send_headers(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status line and the headers."""
        sent = [*headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def send_body(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _noop() -> None:
    """Release nothing."""


Endpoint: TypeAlias = Callable[[HttpRequest], Awaitable[None]]
Methods: TypeAlias = Mapping[str, Endpoint]  # by HTTP method


def defer_slot_until_body(request: HttpRequest) -> bool:
    """Take the slot when the body is complete; False if there is no body to wait for. NoSlot if too many arrive."""
    if request.method not in _BODY_METHODS or not has_body(request.headers) or request.limiter is None:
        return False
    bodies = request.limiter.bodies
    if request.caller.proof == "none":
        request.receive = _AnonymousBody(request, bodies)
        return True
    if not bodies.callers.try_acquire(request.caller.id):
        raise NoSlot
    request.hold_slot(bodies.callers)
    request.receive = _AuthenticatedBody(request)
    return True


class _AuthenticatedBody:
    """The body of an authenticated caller; the server's own body timeout applies."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._receive: Receive = request.receive
        self._complete = False

    async def __call__(self) -> AsgiMessage:
        """Receive the next part; with the last one, take a slot."""
        message = await self._receive()
        if not self._complete and not message.get("more_body"):
            self._complete = True
            self._request.release_slot()
            await self._request.acquire_slot()
        return message


class _AnonymousBody:
    """The body of an anonymous caller: dropped after ANONYMOUS_BODY_SECONDS, or when newer ones need its place."""

    def __init__(self, request: HttpRequest, bodies: IncompleteBodies) -> None:
        self._request = request
        self._receive: Receive = request.receive
        self._bodies = bodies
        self._complete = self._dropped = False
        self._pending: asyncio.Future[AsgiMessage] | None = None
        self._timer = asyncio.get_running_loop().call_later(ANONYMOUS_BODY_SECONDS, self.drop)
        request.hold_slot(self)
        bodies.add_anonymous(request.caller.rate_limit_key, self)

    async def __call__(self) -> AsgiMessage:
        """Receive the next part; with the last one, take a slot."""
        if self._complete:
            return await self._receive()
        message = await self._next()
        if not message.get("more_body"):
            self._complete = True
            self._request.release_slot()
            await self._request.acquire_slot()
        return message

    def release(self, key: str) -> None:  # noqa: ARG002 - of ReleasableSlot
        """Stop the timer: the body is complete, or the request has ended."""
        self._timer.cancel()
        self._bodies.remove_anonymous(self)

    def drop(self) -> None:
        """End the request with 408."""
        self._dropped = True
        if self._pending is not None:
            self._pending.cancel()

    async def _next(self) -> AsgiMessage:
        if self._dropped:
            raise _too_slow()
        self._pending = asyncio.ensure_future(self._receive())
        try:
            return await self._pending
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._pending.cancelled() or (task is not None and task.cancelling()):
                raise  # the request's own task was cancelled
            raise _too_slow() from None


def _too_slow() -> RequestRejected:
    return RequestRejected(408, "the body did not arrive in time; send it again, and faster, or with a credential")
