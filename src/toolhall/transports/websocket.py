"""Many messages over one WebSocket: each is answered in a task of its own, so a slow call holds up no other."""

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count

from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.runners.hub.line import MOST_BYTES
from toolhall.transports.asgi import Receive, Send
from toolhall.transports.crowd import Crowd
from toolhall.transports.identity.base import Proven, Unproven, proven
from toolhall.transports.overload import Room
from toolhall.transports.sender import Sender

MAX_AT_ONCE = 64
MAX_PER_CALLER = 100
MAX_SOCKETS = 1_000
_NOT_PROVEN = 1008
_TOO_LARGE = 1009
_TRY_LATER = 1013


class WebSocket:
    """Reads messages until the client leaves; its running calls end with it."""

    def __init__(
        self,
        answer: Callable[[bytes | None, Caller, str, Sender], Awaitable[Wire]],
        max_body: int,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._answer = answer
        self._most_bytes = most_bytes  # of what a tool server says about one call
        self._max_body = max_body
        self._numbers = count(1)
        self._open: Counter[str] = Counter()  # by caller

    async def serve(
        self, caller: Caller, room: Room, receive: Receive, send: Send, again: Callable[[], Proven] | None = None
    ) -> None:
        """Serve one connection that the shield let through; `again` proves anew who opened it."""
        await receive()  # websocket.connect
        if self._open[caller.account] >= MAX_PER_CALLER or self._open.total() >= MAX_SOCKETS:
            await send({"type": "websocket.close", "code": _TRY_LATER})
            return
        self._open[caller.account] += 1
        try:
            await send({"type": "websocket.accept"})
            await self._messages(again or (lambda: caller), room, receive, send)
        finally:
            self._open[caller.account] -= 1
            if not self._open[caller.account]:
                del self._open[caller.account]

    async def _messages(self, again: Callable[[], Proven], room: Room, receive: Receive, send: Send) -> None:
        crowd = Crowd(MAX_AT_ONCE)
        line, sender = f"socket {next(self._numbers)}", Sender(send, self._most_bytes)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                body = (message.get("bytes") or b"") if text is None else text.encode()
                if sender.heard(
                    body
                ):  # of a tool server that is called on this socket; its line has a bound of its own
                    continue
                if len(body) > self._max_body:
                    await send({"type": "websocket.close", "code": _TOO_LARGE})
                    return
                caller = await proven(again())  # a key that was revoked meanwhile is good no longer
                await room.enter_patiently()  # until then nothing more is read
                try:
                    task = await crowd.start(_one(self._answer(body, caller, line, sender), send))
                except BaseException:
                    room.leave()
                    raise
                task.add_done_callback(lambda _: room.leave())  # it may be cancelled before it begins
        except Unproven:
            await send({"type": "websocket.close", "code": _NOT_PROVEN})
        finally:
            sender.end()
            await crowd.finish()


async def _one(answer: Awaitable[Wire], send: Send) -> None:
    wire = await answer
    if wire.body:
        await send({"type": "websocket.send", "text": wire.body.decode()})
