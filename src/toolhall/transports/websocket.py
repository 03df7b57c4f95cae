"""Many messages over one WebSocket: each is answered in a task of its own, so a slow call holds up no other."""

from collections.abc import Awaitable, Callable
from itertools import count

from toolhall.model.caller import Caller
from toolhall.model.exchange import Wire
from toolhall.transports.asgi import Receive, Send
from toolhall.transports.crowd import Crowd

MAX_AT_ONCE = 64
_TOO_LARGE = 1009


class WebSocket:
    """Reads messages until the client leaves; its running calls end with it."""

    def __init__(self, answer: Callable[[bytes | None, Caller, str], Awaitable[Wire]], max_body: int) -> None:
        self._answer = answer
        self._max_body = max_body
        self._numbers = count(1)

    async def serve(self, caller: Caller, receive: Receive, send: Send) -> None:
        """Serve one connection that the shield let through."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        crowd = Crowd(MAX_AT_ONCE)
        line = f"socket {next(self._numbers)}"
        try:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                body = (message.get("bytes") or b"") if text is None else text.encode()
                if len(body) > self._max_body:
                    await send({"type": "websocket.close", "code": _TOO_LARGE})
                    return
                await crowd.start(_one(self._answer(body, caller, line), send))
        finally:
            await crowd.finish()


async def _one(answer: Awaitable[Wire], send: Send) -> None:
    wire = await answer
    if wire.body:
        await send({"type": "websocket.send", "text": wire.body.decode()})
