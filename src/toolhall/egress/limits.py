"""Limits on response bodies: bytes, decompression ratio and total time (BodyLimiter, ResponseLimits)."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing

import httpx2
import msgspec

from toolhall.egress.addresses import EgressFailed

MAX_DECOMPRESSION_RATIO = 100
RATIO_EXEMPT_BYTES = 64 * 1024  # so little may come of anything
MAX_GZIP_MEMBERS = 16
_CHUNK_BYTES = 64 * 1024
_GZIP = zlib.MAX_WBITS | 16


class ResponseLimits(msgspec.Struct, frozen=True):
    """What one reply may cost."""

    max_bytes: int
    seconds: float


class LimitedBody(httpx2.AsyncByteStream):
    """The bytes of a reply, unpacked; EgressFailed once they are too many, ReadTimeout when they take too long."""

    def __init__(
        self, raw: AsyncGenerator[bytes], close: Callable[[], Awaitable[None]], limiter: "BodyLimiter"
    ) -> None:
        self._raw = raw
        self._close = close
        self._limiter = limiter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._raw) as parts:
            while (part := await self._limiter.before_deadline(anext(parts, None))) is not None:
                for piece in self._limiter.decode(part):
                    yield piece
        self._limiter.finish()

    async def aclose(self) -> None:
        """Leave the rest unread."""
        await self._close()


class BodyLimiter:
    """Counts one reply; `shown` is what its URL is called in messages."""

    def __init__(self, display_url: str, limits: ResponseLimits, deadline: float) -> None:
        self._display_url = display_url
        self._limits = limits
        self._deadline = deadline
        self._received = 0
        self._decoded = 0
        self._gzip: GzipDecoder | None = None

    def check_headers(self, coding: str, length: str) -> None:
        """Refuse what can be known from the headers."""
        if coding == "gzip":
            self._gzip = GzipDecoder()
        elif coding not in ("", "identity"):
            raise self._failed("is packed in a way that was not asked for")
        if length.isdigit() and int(length[:20]) > self._limits.max_bytes:
            raise self._too_large()

    async def before_deadline(self, waiting: Awaitable[bytes | None]) -> bytes | None:
        """The next part, if it comes before the end of the time for the whole reply."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await waiting
        except TimeoutError:
            raise self.timeout_error() from None

    def timeout_error(self) -> httpx2.ReadTimeout:
        """The time is over."""
        return httpx2.ReadTimeout(f"{self._display_url} has not answered whole within {self._limits.seconds:g} seconds")

    def decode(self, part: bytes) -> Iterator[bytes]:
        """What a part holds, in pieces of bounded size, each counted before it is passed on."""
        self._received += len(part)
        if self._received > self._limits.max_bytes:
            raise self._too_large()
        try:
            for piece in [part] if self._gzip is None else self._gzip.feed(part):
                self._count(piece)
                yield piece
        except zlib.error:
            raise self._failed("is damaged: it cannot be unpacked") from None

    def finish(self) -> None:
        """Nothing more comes."""
        if self._gzip is not None and self._received and not self._gzip.complete:
            raise self._failed("ends too early")

    def _count(self, piece: bytes) -> None:
        self._decoded += len(piece)
        if self._decoded > self._limits.max_bytes:
            raise self._too_large()
        if self._decoded > max(RATIO_EXEMPT_BYTES, MAX_DECOMPRESSION_RATIO * self._received):
            raise self._failed(f"grows to more than {MAX_DECOMPRESSION_RATIO} times its size when it is unpacked")

    def _too_large(self) -> EgressFailed:
        return self._failed(f"is larger than {self._limits.max_bytes} bytes")

    def _failed(self, reason: str) -> EgressFailed:
        return EgressFailed(f"what {self._display_url} answers {reason}")


class GzipDecoder:
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
                self._next_member()
            piece = self._member.decompress(data, _CHUNK_BYTES)
            if piece:
                yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            # A full piece may leave more inside, though all of the data is taken in.
            if not data and (self._member.eof or len(piece) < _CHUNK_BYTES):
                return

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise zlib.error("too many members")
        self._member = zlib.decompressobj(_GZIP)
