"""What a running call says, in order, to a hall that may read slowly: news are dropped then, and nothing else is."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

_MOST_WAITING = 64
_MOST_BYTES = 256 * 1024


class Outgoing:
    """The messages of one call before its end; a task writes them, from the first one on."""

    __slots__ = ("_bytes", "_send", "_waiting", "_writing", "begun", "dropped")

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self.begun = False  # something was said
        self.dropped = 0

    def tell(self, message: bytes) -> None:
        """Say it, unless too much waits already."""
        if len(self._waiting) >= _MOST_WAITING or self._bytes + len(message) > _MOST_BYTES:
            self.dropped += 1
        else:
            self.put(message)

    def put(self, message: bytes) -> None:
        """Say it in any case."""
        self.begun = True
        self._waiting.append(message)
        self._bytes += len(message)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Wait until everything is written."""
        if self._writing is not None:
            await self._writing

    async def stop(self) -> None:
        """Nobody reads any more."""
        self._waiting.clear()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message)
                await self._send(message)
        except Exception:  # noqa: BLE001 - whoever sends the end of the call hears of it, too
            self._waiting.clear()
            self._bytes = 0
