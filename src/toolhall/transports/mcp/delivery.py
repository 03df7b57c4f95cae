"""Gives the reply to a request of the newest revision: plain JSON, or events as soon as there is one to send."""

import asyncio

from toolhall.model.exchange import Wire
from toolhall.transports.exchange import Exchange
from toolhall.transports.sse import hung_up, start_events, write_events
from toolhall.transports.stream import Stream


class Delivery:
    """The outlet of one request; costs nothing while the call answers at once and sends no events."""

    __slots__ = ("_exchange", "_pump", "_stream", "_watcher", "attending", "hung_up", "streaming")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._stream: Stream | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self.hung_up = False
        self.attending = False  # whether somebody watches
        self.streaming = False  # whether an event was sent, so that the answer must be one too

    def send(self, message: bytes) -> None:
        """Send an event before the answer, if the client takes events."""
        if self._stream is None:
            accepted = self._exchange.headers.get(b"accept", b"*/*")
            if b"text/event-stream" not in accepted and b"*/*" not in accepted:
                return
            self._stream = Stream()
            self.streaming = True
            if self.attending:
                self._pump = asyncio.create_task(self._write(self._stream))
        self._stream.send(message)

    def hang_up(self, retry_ms: int) -> None:
        """There is no coming back in this revision."""

    def attend(self) -> None:
        """The call has to wait: watch for a hang-up, and send events meanwhile."""
        self.attending = True
        caller = asyncio.current_task()
        if not self._exchange.watch(lambda: self._gone(caller)):
            self._watcher = asyncio.create_task(self._watch(caller))
        if self._stream is not None:
            self._pump = asyncio.create_task(self._write(self._stream))

    async def finish(self, wire: Wire) -> None:
        """Send the answer as the last event."""
        if self._stream is not None:
            self._stream.finish(wire.body)
            await (self._pump or self._write(self._stream))

    async def close(self) -> None:
        """Stop attending."""
        self._exchange.watch(None)
        tasks = [task for task in (self._watcher, self._pump) if task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, caller: asyncio.Task[object] | None) -> None:
        await hung_up(self._exchange)
        self._gone(caller)

    def _gone(self, caller: asyncio.Task[object] | None) -> None:
        """MCP 2026-07-28: closing the response stream cancels the request."""
        self.hung_up = True
        if caller:
            caller.cancel()

    async def _write(self, stream: Stream) -> None:
        await start_events(self._exchange)
        await write_events(self._exchange, stream)
