"""Many messages over one WebSocket: each is answered in a task of its own, so a slow call holds up no other."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any, Protocol

from toolhall.dialects.hub.leasing import is_about_a_lease
from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.runners.hub.line import MOST_BYTES
from toolhall.transports.asgi import Receive, Send
from toolhall.transports.crowd import Crowd
from toolhall.transports.identity.base import Proven, Unproven, proven
from toolhall.transports.joining import may_serve
from toolhall.transports.overload import RequestLimiter, key_of
from toolhall.transports.sender import Sender

MAX_AT_ONCE = 64
MAX_LEASING = 16  # of one socket: they wait for each other, not for a place
MAX_PER_CALLER = 100
MAX_SOCKETS = 1_000
MAX_SOCKETS_OF_STRANGERS = 250
PAUSE_SECONDS = 0.25  # after a message that was turned away, nothing more is read for so long
_PATH = "/hub"
_NOT_PROVEN = 1008
_TOO_LARGE = 1009
_TRY_LATER = 1013


class Answers(Protocol):
    """Who answers messages, as the hub does."""

    async def answer(self, body: bytes | None, caller: Caller, line: str, sender: Sender) -> Wire:
        """The one reply to a message."""
        ...

    def turn_away(self, body: bytes) -> Wire:
        """What a message is told for which there is no place."""
        ...


class WebSocket:
    """Reads messages until the client leaves; its running calls end with it."""

    def __init__(self, hub: Answers, max_body: int, most_bytes: int = MOST_BYTES) -> None:
        self._hub = hub
        self._most_bytes = most_bytes  # of what a tool server says about one call
        self._max_body = max_body
        self._numbers = count(1)
        self._open: Counter[str] = Counter()  # by caller

    async def serve(
        self,
        caller: Caller,
        admission: RequestLimiter,
        receive: Receive,
        send: Send,
        again: Callable[[], Proven] | None = None,
    ) -> None:
        """Serve one connection that the shield let through; `again` proves anew who opened it."""
        await receive()  # websocket.connect
        if self._is_full(caller):
            await send({"type": "websocket.close", "code": _TRY_LATER})
            return
        self._open[caller.account] += 1
        try:
            await send({"type": "websocket.accept"})
            await self._messages(again or (lambda: caller), admission, receive, send)
        finally:
            self._open[caller.account] -= 1
            if not self._open[caller.account]:
                del self._open[caller.account]

    def _is_full(self, caller: Caller) -> bool:
        """Whether this caller may open no more sockets."""
        if self._open[caller.account] >= MAX_PER_CALLER or self._open.total() >= MAX_SOCKETS:
            return True
        if caller.proof != "none":
            return False
        return sum(count for key, count in self._open.items() if key.startswith(caller.id)) >= MAX_SOCKETS_OF_STRANGERS

    async def _messages(
        self, again: Callable[[], Proven], admission: RequestLimiter, receive: Receive, send: Send
    ) -> None:
        sender = Sender(send, again, self._most_bytes)
        line = _Line(self._hub, f"socket {next(self._numbers)}", sender, admission, send)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                body = (message.get("bytes") or b"") if text is None else text.encode()
                if sender.heard(body):  # of a tool server that is called here; its line has a bound of its own
                    continue
                if len(body) > self._max_body:
                    await send({"type": "websocket.close", "code": _TOO_LARGE})
                    return
                await line.take(body, await proven(again()))  # a key that was revoked meanwhile is good no longer
        except Unproven:
            await send({"type": "websocket.close", "code": _NOT_PROVEN})
        finally:
            sender.end()
            await line.end()


class _Line:
    """One socket: nothing more is read while a message waits for a slot, unless a tool server is called there.

    What such a server says behind that message may be just what frees the slot. A message waits in the same queue as
    HTTP requests do, and for no longer; then it is told when to come back.
    """

    def __init__(self, hub: Answers, name: str, sender: Sender, admission: RequestLimiter, send: Send) -> None:
        self._hub = hub
        self._name = name
        self._sender = sender
        self._admission = admission
        self._send = send
        self._calls, self._leasing = Crowd(MAX_AT_ONCE), Crowd(MAX_LEASING)
        self._is_called = False

    async def take(self, body: bytes, caller: Caller) -> None:
        """Let a message be answered, by and by."""
        if may_serve(caller) and is_about_a_lease(body):
            self._is_called = True
            await self._start_at_once(self._leasing, self._answer(body, caller), body)
        elif self._is_called:
            await self._start_at_once(self._calls, self._answer_admitted(body, caller), body)
        else:
            leave = await self._admitted(caller)
            if leave is None:
                await self._say(self._hub.turn_away(body))
                await asyncio.sleep(PAUSE_SECONDS)
                return
            try:
                task = await self._calls.start(self._answer(body, caller))
            except BaseException:
                leave()
                raise
            task.add_done_callback(lambda _: leave())  # it may be cancelled before it begins

    async def end(self) -> None:
        """Whatever still runs."""
        await self._calls.finish()
        await self._leasing.finish()

    async def _start_at_once(self, crowd: Crowd, work: Coroutine[Any, Any, None], body: bytes) -> None:
        if crowd.full:
            work.close()
            await self._say(self._hub.turn_away(body))
        else:
            await crowd.start(work)

    async def _answer_admitted(self, body: bytes, caller: Caller) -> None:
        leave = await self._admitted(caller)
        if leave is None:
            await self._say(self._hub.turn_away(body))
            return
        try:
            await self._answer(body, caller)
        finally:
            leave()

    async def _admitted(self, caller: Caller) -> Callable[[], None] | None:
        """A slot; returns how to give it back, None if there is none for this caller."""
        slot = self._admission.enter(caller, _PATH) or await self._admission.wait(caller)
        return None if slot is None else partial(slot.leave, key_of(caller))

    async def _answer(self, body: bytes, caller: Caller) -> None:
        await self._say(await self._hub.answer(body, caller, self._name, self._sender))

    async def _say(self, wire: Wire) -> None:
        if wire.body:
            await self._send({"type": "websocket.send", "text": wire.body.decode()})
