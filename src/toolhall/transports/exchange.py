"""One HTTP request and the reply to it, for endpoints that do not want to know ASGI."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol
from urllib.parse import parse_qsl, unquote

from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.model.json import encode
from toolhall.transports.asgi import Headers, Receive, Scope, Send
from toolhall.transports.challenges import Challenges
from toolhall.transports.identity.base import Identity, Unproven, proven
from toolhall.transports.overload import NoSlot, RequestLimiter, Slots, key_of
from toolhall.transports.shield import Turned

MOST_PARAMETERS = 20
_CODES = {
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
_JSON = (b"content-type", b"application/json")
_HEAD = b"content-type: application/json\r\ncontent-length: %d\r\n"
OWN = "toolhall.own"  # in a scope: what our own server can do besides what ASGI says
_CHALLENGED = (401, 403)


class Own(Protocol):
    """Our own server's side of a request."""

    more_body: bool  # whether a part of the body has not come yet

    def whole(self, status: int, lines: bytes, body: bytes) -> bool:
        """Send a reply that is there whole, with these lines of headers; whether it could."""
        ...

    def watch(self, gone: Callable[[], None] | None) -> None:
        """Call this once the client is gone; None: no longer."""
        ...

    def rest(self) -> None:
        """Read nothing more for a moment: the client was told to come back later, and some do not listen."""
        ...


class Exchange:
    """What came, from whom, and the way back."""

    __slots__ = (
        "_send",
        "admission",
        "caller",
        "challenges",
        "headers",
        "identity",
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
        self.admission: RequestLimiter | None = None  # None: there is no bound
        self.slot: Slots | None = None  # of which kind it holds one, in the name of `slot_key`
        self.scope: Scope = {}
        self.challenges: Challenges | None = None  # what is said to whoever may not
        self.identity: Identity | None = None  # what proved the caller
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

    def hold(self, slot: Slots) -> None:
        """Note that it has taken one of these in its caller's name."""
        caller = self.caller
        self.slot, self.slot_key = slot, caller.id if caller.address is None else caller.account

    async def admit(self) -> None:
        """Take a slot, after a moment if need be; NoSlot if there is none for its caller."""
        if self.admission is None:
            return
        slot = self.admission.enter(self.caller, self.path) or await self.admission.wait(self.caller)
        if slot is None:
            raise NoSlot
        self.hold(slot)

    async def admit_as(self, caller: Caller) -> None:
        """Exchange the slot for one of this caller, whom the message proved; NoSlot if there is none for it."""
        if key_of(caller) != key_of(self.caller):
            self.leave()
            self.caller = caller
            await self.admit()

    def take_place(self) -> Callable[[], None]:
        """The slot of this request goes to what outlives it, or lasts long; returns how to give it back."""
        slot, self.slot = self.slot, None
        return _nothing if slot is None else partial(slot.leave, self.slot_key)

    def leave(self) -> None:
        """Give the slot of this request back, if it still has one."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.leave(self.slot_key)

    async def reply(self, wire: Wire, *extra: tuple[bytes, bytes]) -> None:
        """Send a complete reply; whoever reads it may ask again at once, and finds the slot free."""
        self.leave()
        if wire.status in _CHALLENGED and self.challenges is not None:
            wire = self.challenges.completed(wire, self.scope, self.headers)
        body = wire.body
        if not (wire.headers or extra) and body:
            own: Own | None = self.scope.get(OWN)
            if own is not None and own.whole(wire.status, _HEAD % len(body), body):
                return
        headers = [_JSON, (b"content-length", b"%d" % len(body)), *wire.headers, *extra]
        start = {"type": "http.response.start", "status": wire.status, "headers": headers if body else headers[1:]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, status: int, message: str, *extra: tuple[bytes, bytes]) -> None:
        """Send an error outside any dialect, in the words of plain REST."""
        await self.reply(Wire(encode({"error": {"code": _CODES[status], "message": message}}), status), *extra)

    async def is_still_proven(self) -> bool:
        """Whether its credential is good now: one may end, or be revoked, while a stream is open."""
        try:
            return self.identity is None or bool(await proven(self.identity.caller(self.scope, self.headers)))
        except Unproven:
            return False

    def watch(self, gone: Callable[[], None] | None) -> bool:
        """Call this once the client is gone (None: no longer), where the server can; a task that waits costs more."""
        own: Own | None = self.scope.get(OWN)
        if own is not None:
            own.watch(gone)
        return own is not None

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status line and the headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _nothing() -> None:
    """Where nothing was taken, nothing is given back."""
