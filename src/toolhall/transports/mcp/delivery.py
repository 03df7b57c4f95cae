"""Gives the reply to a request of the newest revision: plain JSON, or events as soon as there is one to send."""

import asyncio

from toolhall.model.exchange import Wire
from toolhall.transports.exchange import Exchange
from toolhall.transports.stream import Stream
from toolhall.transports.sse import start_events, write_events


class Delivery:
    """Idle while a call answers at once; attends to the connection once the call has to wait."""

    def __init__(self, exchange: Exchange, stream: Stream) -> None:
        self._exchange = exchange
        self._stream = stream
        accepted = exchange.headers.get(b"accept", b"*/*")
        self._events = b"text/event-stream" in accepted or b"*/*" in accepted
        self._watcher: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self.hung_up = False

    @property
    def attending(self) -> bool:
        """Whether there are tasks to stop."""
        return self._watcher is not None

    def attend(self) -> None:
        """Begin to watch for a hang-up, and to send events."""
        self._watcher = asyncio.create_task(self._watch(asyncio.current_task()))
        if self._events:
            self._pump = asyncio.create_task(self._write())

    async def finish(self, wire: Wire) -> None:
        """Send the answer: on the event stream if one was begun, else as plain JSON."""
        if self._events and not self._stream.empty:
            self._stream.finish(wire.body)
            await (self._pump or self._write())
            return
        if self._pump:
            self._pump.cancel()
        await self._exchange.reply(wire)

    async def close(self) -> None:
        """Stop attending."""
        tasks = [task for task in (self._watcher, self._pump) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, caller: "asyncio.Task[object] | None") -> None:
        """MCP 2026-07-28: closing the response stream cancels the request."""
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self.hung_up = True
        if caller:
            caller.cancel()

    async def _write(self) -> None:
        await self._stream.started()
        await start_events(self._exchange)
        await write_events(self._exchange, self._stream.read())
