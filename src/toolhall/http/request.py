"""`HttpRequest`: one HTTP request, its caller, its concurrency slot, and the methods that send the response.

`ServerExtension` is what Toolhall's own server offers beyond ASGI: a complete response in one write, and a callback
on disconnect; with other ASGI servers `HttpRequest` falls back to plain ASGI.

`defer_slot_until_body` replaces `receive` of a request whose body is incomplete, so that the slot is taken with the
last chunk. Bodies of anonymous callers have a deadline of their own and can be dropped; see `http.concurrency`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

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
from toolhall.http.concurrency import ConcurrencyLimiter, IncompleteBodies, NoSlot, ReleasableSlot, slot_key
from toolhall.http.errors import AuthChallenges
from toolhall.http.request_guard import (
    RequestRejected,
)
from toolhall.model.caller import Caller
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse

MAX_QUERY_PARAMETERS = 20
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
_JSON_HEADERS = b"content-type: application/json\r\ncontent-length: %d\r\n"
SERVER_EXTENSION = "toolhall.own"  # in a scope: what our own server can do besides what ASGI says
_CHALLENGED = (401, 403)
ANONYMOUS_BODY_SECONDS = 5.0  # for the whole body of somebody who proved nothing
_BODY_METHODS = ("POST", "PUT", "PATCH")


class ServerExtension(Protocol):
    """Our own server's side of a request."""

    more_body: bool  # whether a part of the body has not come yet

    def send_complete(self, status: int, header_lines: bytes, body: bytes) -> bool:
        """Send a reply that is there whole, with these lines of headers; whether it could."""
        ...

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this once the client is gone; None: no longer."""
        ...

    def pause_reading(self) -> None:
        """Read nothing more for a moment: the client was told to come back later, and some do not listen."""
        ...


class HttpRequest:
    """What came, from whom, and the way back."""

    __slots__ = (
        "_send",
        "authenticator",
        "caller",
        "challenges",
        "headers",
        "limiter",
        "method",
        "path",
        "query",
        "raw_path",
        "receive",
        "scope",
        "slot",
        "slot_key",
    )

    def __init__(self, method: str, headers: Headers, caller: Caller, receive: Receive, send: Send) -> None:
        self.method = method
        self.headers = headers
        self.caller = caller
        self.receive = receive
        self.path = ""
        self.raw_path = b""  # before anything was unescaped; empty where the server does not tell
        self.query = b""
        self.limiter: ConcurrencyLimiter | None = None  # None: there is no bound
        self.slot: ReleasableSlot | None = None  # of which kind it holds one, in the name of `slot_key`
        self.scope: Scope = {}
        self.challenges: AuthChallenges | None = None  # what is said to whoever may not
        self.authenticator: RequestAuthenticator | None = None  # what proved the caller
        self._send = send

    @property
    def parameters(self) -> dict[str, str]:
        """The query's parameters; one that is there twice could be read in two ways, so it is refused."""
        try:
            pairs = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_QUERY_PARAMETERS)
        except ValueError:
            raise RequestRejected(400, f"the query has more than {MAX_QUERY_PARAMETERS} parameters") from None
        found = dict(pairs)
        if len(found) != len(pairs):
            raise RequestRejected(400, "a parameter of the query is there twice; leave out one")
        return found

    def path_segments(self, prefix: str) -> list[str]:
        """The parts of the path below a prefix as the client cut it: a slash that it escaped belongs to a name."""
        raw = self.raw_path.decode("latin-1")
        # A server need not tell, or the hall is mounted below another path.
        if "%" not in raw or unquote(raw) != self.path:
            return self.path.removeprefix(prefix).split("/")
        return [unquote(part) for part in raw.removeprefix(prefix).split("/")]

    def hold_slot(self, slot: ReleasableSlot) -> None:
        """Note that it has taken one of these in its caller's name."""
        caller = self.caller
        self.slot, self.slot_key = slot, caller.id if caller.address is None else caller.rate_limit_key

    async def acquire_slot(self) -> None:
        """Take a slot, after a moment if need be; NoSlot if there is none for its caller."""
        if self.limiter is None:
            return
        slot = self.limiter.try_acquire(self.caller, self.path) or await self.limiter.acquire(self.caller)
        if slot is None:
            raise NoSlot
        self.hold_slot(slot)

    async def switch_caller(self, caller: Caller) -> None:
        """Exchange the slot for one of this caller, whom the message proved; NoSlot if there is none for it."""
        if slot_key(caller) != slot_key(self.caller):
            self.release_slot()
            self.caller = caller
            await self.acquire_slot()

    def detach_slot(self) -> Callable[[], None]:
        """The slot of this request goes to what outlives it, or lasts long; returns how to give it back."""
        slot, self.slot = self.slot, None
        return _noop if slot is None else partial(slot.release, self.slot_key)

    def release_slot(self) -> None:
        """Give the slot of this request back, if it still has one."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release(self.slot_key)

    async def reply(self, wire: WireResponse, *extra: tuple[bytes, bytes]) -> None:
        """Send a complete reply; whoever reads it may ask again at once, and finds the slot free."""
        self.release_slot()
        if wire.status in _CHALLENGED and self.challenges is not None:
            wire = self.challenges.with_metadata(wire, self.scope, self.headers)
        body = wire.body
        if not (wire.headers or extra) and body:
            own: ServerExtension | None = self.scope.get(SERVER_EXTENSION)
            if own is not None and own.send_complete(wire.status, _JSON_HEADERS % len(body), body):
                return
        headers = [_JSON_TYPE, (b"content-length", b"%d" % len(body)), *wire.headers, *extra]
        start = {"type": "http.response.start", "status": wire.status, "headers": headers if body else headers[1:]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, message: str, *extra: tuple[bytes, bytes]) -> None:
        """Send an error outside any dialect, in the words of plain REST."""
        await self.reply(
            WireResponse(encode({"error": {"code": _ERROR_CODES[status], "message": message}}), status), *extra
        )

    async def is_still_authenticated(self) -> bool:
        """Whether its credential is good now: one may end, or be revoked, while a stream is open."""
        try:
            return self.authenticator is None or bool(
                await resolve_caller(self.authenticator.authenticate(self.scope, self.headers))
            )
        except AuthenticationFailed:
            return False

    def on_disconnect(self, callback: Callable[[], None] | None) -> bool:
        """Call this once the client is gone (None: no longer), where the server can; a task that waits costs more."""
        own: ServerExtension | None = self.scope.get(SERVER_EXTENSION)
        if own is not None:
            own.on_disconnect(callback)
        return own is not None

    async def send_headers(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status line and the headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_body(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _noop() -> None:
    """Where nothing was taken, nothing is given back."""


Endpoint: TypeAlias = Callable[[HttpRequest], Awaitable[None]]
Methods: TypeAlias = Mapping[str, Endpoint]  # by HTTP method


def defer_slot_until_body(request: HttpRequest) -> bool:
    """Let the slot be taken once the body is whole; False where none is to come. NoSlot if too many are arriving."""
    if request.method not in _BODY_METHODS or not _has_body(request.headers) or request.limiter is None:
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
    """Of a proven caller; the server's own deadline for a body applies."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._receive: Receive = request.receive
        self._complete = False

    async def __call__(self) -> AsgiMessage:
        """The next part; with the last one, a slot."""
        message = await self._receive()
        if not self._complete and not message.get("more_body"):
            self._complete = True
            self._request.release_slot()
            await self._request.acquire_slot()
        return message


class _AnonymousBody:
    """Of somebody who proved nothing: dropped after a few seconds, or when others need its place."""

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
        """The next part; with the last one, a slot."""
        if self._complete:
            return await self._receive()
        message = await self._next()
        if not message.get("more_body"):
            self._complete = True
            self._request.release_slot()
            await self._request.acquire_slot()
        return message

    def release(self, key: str) -> None:  # noqa: ARG002 - one of several things that an exchange can hold
        """It is whole, or its request has ended."""
        self._timer.cancel()
        self._bodies.remove_anonymous(self)

    def drop(self) -> None:
        """Its request ends with 408."""
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


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
