"""What comes back, bounded: in bytes, in how much it grows when it is unpacked, and in time."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing

import httpx2
import msgspec

from toolhall.egress.errors import EgressFailed

MOST_GROWTH = 100
FREE_BYTES = 64 * 1024  # so little may come of anything
MOST_MEMBERS = 16
_PIECE = 64 * 1024
_GZIP = zlib.MAX_WBITS | 16


class Bounds(msgspec.Struct, frozen=True):
    """What one reply may cost."""

    max_bytes: int
    seconds: float


class Body(httpx2.AsyncByteStream):
    """The bytes of a reply, unpacked; EgressFailed once they are too many, ReadTimeout when they take too long."""

    def __init__(self, raw: AsyncGenerator[bytes], close: Callable[[], Awaitable[None]], measure: "Measure") -> None:
        self._raw = raw
        self._close = close
        self._measure = measure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._raw) as parts:
            while (part := await self._measure.in_time(anext(parts, None))) is not None:
                for piece in self._measure.unpacked(part):
                    yield piece
        self._measure.end()

    async def aclose(self) -> None:
        """Leave the rest unread."""
        await self._close()


class Measure:
    """Counts one reply; `shown` is what its URL is called in messages."""

    def __init__(self, shown: str, bounds: Bounds, deadline: float) -> None:
        self._shown = shown
        self._bounds = bounds
        self._deadline = deadline
        self._packed = 0
        self._unpacked = 0
        self._gzip: Gunzip | None = None

    def begin(self, coding: str, length: str) -> None:
        """Refuse what can be known from the headers."""
        if coding == "gzip":
            self._gzip = Gunzip()
        elif coding not in ("", "identity"):
            raise self._failed("is packed in a way that was not asked for")
        if length.isdigit() and int(length[:20]) > self._bounds.max_bytes:
            raise self._too_large()

    async def in_time(self, waiting: Awaitable[bytes | None]) -> bytes | None:
        """The next part, if it comes before the end of the time for the whole reply."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await waiting
        except TimeoutError:
            raise self.late() from None

    def late(self) -> httpx2.ReadTimeout:
        """The time is over."""
        return httpx2.ReadTimeout(f"{self._shown} has not answered whole within {self._bounds.seconds:g} seconds")

    def unpacked(self, part: bytes) -> Iterator[bytes]:
        """What a part holds, in pieces of bounded size, each counted before it is passed on."""
        self._packed += len(part)
        if self._packed > self._bounds.max_bytes:
            raise self._too_large()
        try:
            for piece in [part] if self._gzip is None else self._gzip.feed(part):
                self._count(piece)
                yield piece
        except zlib.error:
            raise self._failed("is damaged: it cannot be unpacked") from None

    def end(self) -> None:
        """Nothing more comes."""
        if self._gzip is not None and self._packed and not self._gzip.complete:
            raise self._failed("ends too early")

    def _count(self, piece: bytes) -> None:
        self._unpacked += len(piece)
        if self._unpacked > self._bounds.max_bytes:
            raise self._too_large()
        if self._unpacked > max(FREE_BYTES, MOST_GROWTH * self._packed):
            raise self._failed(f"grows to more than {MOST_GROWTH} times its size when it is unpacked")

    def _too_large(self) -> EgressFailed:
        return self._failed(f"is larger than {self._bounds.max_bytes} bytes")

    def _failed(self, why: str) -> EgressFailed:
        return EgressFailed(f"what {self._shown} answers {why}")


class Gunzip:
    """Unpacks piece by piece; a reply may consist of several members, but not of so many that they cost time."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._members = 1

    @property
    def complete(self) -> bool:
        """Whether the last member has ended."""
        return self._member.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """All that comes of these bytes; zlib.error for what is no gzip."""
        while True:
            if self._member.eof and data:
                self._next()
            piece = self._member.decompress(data, _PIECE)
            if piece:
                yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            # A full piece may leave more inside, though all of the data is taken in.
            if not data and (self._member.eof or len(piece) < _PIECE):
                return

    def _next(self) -> None:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise zlib.error("too many members")
        self._member = zlib.decompressobj(_GZIP)
