"""What is sent back for one request: notices, then the answer; kept so that a client can come back for it."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

MAX_KEPT = 256
MAX_KEPT_BYTES = 256 * 1024  # of notices: an answer is kept whatever its size
KEEP_ALIVE_SECONDS = 15.0


class Item(msgspec.Struct, frozen=True):
    """One message and its place in the stream; an empty one says only that the stream lives."""

    number: int
    message: bytes


class Stream:
    """Written by one call, read by one connection at a time; a slow reader loses notices, never the answer."""

    def __init__(self) -> None:
        self._name = ""
        self.finished = False
        self.retry_ms: int | None = None
        self._items: deque[Item] = deque(maxlen=MAX_KEPT)
        self.kept_bytes = 0
        self.last = 0
        self._news = asyncio.Event()
        self._hang_ups = 0

    @property
    def name(self) -> str:
        """What the ids of its events start with: random, so that no other stream's ids can be derived from one.

        It is made when it is first asked for: most calls are answered by a plain reply, which has no event ids.
        """
        if not self._name:
            self._name = secrets.token_hex(16)
        return self._name

    def is_named(self, name: str) -> bool:
        """Whether this is its name; a stream that never needed one has none."""
        return bool(self._name) and secrets.compare_digest(self._name.encode(), name.encode())

    def send(self, message: bytes) -> None:
        """Add a message."""
        if self.finished:
            return
        self.last += 1
        self.kept_bytes += len(message)
        while self._items and (len(self._items) >= MAX_KEPT or self.kept_bytes > MAX_KEPT_BYTES):
            self.kept_bytes -= len(self._items.popleft().message)
        self._items.append(Item(self.last, message))
        self._news.set()

    def finish(self, answer: bytes | None = None) -> None:
        """Add the answer, if there is one, and end."""
        if answer is not None:
            self.send(answer)
        self.finished = True
        self._news.set()

    def hang_up(self, retry_ms: int) -> None:
        """Send the present reader away; it may come back after this time."""
        self.retry_ms = retry_ms
        self._hang_ups += 1
        self._news.set()

    @property
    def untouched(self) -> bool:
        """Nothing but the answer has been sent, and no reader was sent away: a plain reply will do."""
        return self.finished and self.last <= 1 and not self._hang_ups

    async def started(self) -> None:
        """Wait until there is something to send, or nothing more will come."""
        while not (self._items or self.finished or self._hang_ups):
            await self._wait(None)

    async def read(self, after: int = 0, *, resumed: bool = False) -> AsyncGenerator[Item, None]:
        """Messages after this place, as they come; an empty item when there was none for a while."""
        seen = self._hang_ups if resumed else 0
        while True:
            for item in [item for item in self._items if item.number > after]:
                after = item.number
                yield item
            if self.last > after:
                continue  # more came while these were written; to wait now would be to miss it
            if self.finished or self._hang_ups > seen:
                return
            if not await self._wait(KEEP_ALIVE_SECONDS):
                yield Item(after, b"")

    async def _wait(self, seconds: float | None) -> bool:
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True
