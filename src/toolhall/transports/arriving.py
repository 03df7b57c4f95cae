"""Bodies that are incomplete when their request begins: bounded, timed for strangers, and no slot until they are whole.

`await_body` replaces the `receive` of an exchange, so that endpoints read a body as they always do; the slot is taken
with its last part. See `overload` for the whole of admission.
"""

import asyncio

from toolhall.transports.asgi import AsgiMessage, Headers, Receive
from toolhall.transports.exchange import Exchange
from toolhall.transports.overload import Bodies, NoSlot
from toolhall.transports.shield import Turned

STRANGER_SECONDS = 5.0  # for the whole body of somebody who proved nothing
_SENDING = ("POST", "PUT", "PATCH")


def await_body(exchange: Exchange) -> bool:
    """Let the slot be taken once the body is whole; False where none is to come. NoSlot if too many are arriving."""
    if exchange.method not in _SENDING or not _has_body(exchange.headers) or exchange.admission is None:
        return False
    bodies = exchange.admission.bodies
    if exchange.caller.proof == "none":
        exchange.receive = _StrangersBody(exchange, bodies)
        return True
    if not bodies.callers.take(exchange.caller.id):
        raise NoSlot
    exchange.hold(bodies.callers)
    exchange.receive = _CallersBody(exchange)
    return True


class _CallersBody:
    """Of a proven caller; the server's own deadline for a body applies."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._receive: Receive = exchange.receive
        self._whole = False

    async def __call__(self) -> AsgiMessage:
        """The next part; with the last one, a slot."""
        message = await self._receive()
        if not self._whole and not message.get("more_body"):
            self._whole = True
            self._exchange.leave()
            await self._exchange.admit()
        return message


class _StrangersBody:
    """Of somebody who proved nothing: dropped after a few seconds, or when others need its place."""

    def __init__(self, exchange: Exchange, bodies: Bodies) -> None:
        self._exchange = exchange
        self._receive: Receive = exchange.receive
        self._bodies = bodies
        self._whole = self._dropped = False
        self._waiting: asyncio.Future[AsgiMessage] | None = None
        self._timer = asyncio.get_running_loop().call_later(STRANGER_SECONDS, self.drop)
        exchange.hold(self)
        bodies.begin_stranger(exchange.caller.account, self)

    async def __call__(self) -> AsgiMessage:
        """The next part; with the last one, a slot."""
        if self._whole:
            return await self._receive()
        message = await self._next()
        if not message.get("more_body"):
            self._whole = True
            self._exchange.leave()
            await self._exchange.admit()
        return message

    def leave(self, key: str) -> None:  # noqa: ARG002 - one of several things that an exchange can hold
        """It is whole, or its request has ended."""
        self._timer.cancel()
        self._bodies.end_stranger(self)

    def drop(self) -> None:
        """Its request ends with 408."""
        self._dropped = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _next(self) -> AsgiMessage:
        if self._dropped:
            raise _too_slow()
        self._waiting = asyncio.ensure_future(self._receive())
        try:
            return await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._waiting.cancelled() or (task is not None and task.cancelling()):
                raise  # the request's own task was cancelled
            raise _too_slow() from None


def _too_slow() -> Turned:
    return Turned(408, "the body did not arrive in time; send it again, and faster, or with a credential")


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
