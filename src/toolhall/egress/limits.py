"""Limits on a response: bytes, decompression ratio and total time (ResponseLimits, BodyLimiter)."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing

import httpx2
import msgspec

from toolhall.egress.addresses import EgressFailed

MAX_DECOMPRESSION_RATIO = 100
RATIO_EXEMPT_BYTES = 64 * 1024  # the ratio does not matter up to this size
MAX_GZIP_MEMBERS = 16
_CHUNK_BYTES = 64 * 1024
_GZIP = zlib.MAX_WBITS | 16


class ResponseLimits(msgspec.Struct, frozen=True):
    """Limits on one response."""

    max_bytes: int  # as received, and decompressed
    seconds: float  # from the DNS lookup to the last byte


class LimitedBody(httpx2.AsyncByteStream):
    """The decompressed body; raises EgressFailed when it exceeds a limit, ReadTimeout when it takes too long."""

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
        """Close the connection without reading the rest."""
        await self._close()


class BodyLimiter:
    """Decodes one response body and enforces its limits; `display_url` names the URL in messages."""

    def __init__(self, display_url: str, limits: ResponseLimits, deadline: float) -> None:
        self._display_url = display_url
        self._limits = limits
        self._deadline = deadline
        self._received = 0
        self._decoded = 0
        self._gzip: GzipDecoder | None = None

    def check_headers(self, coding: str, length: str) -> None:
        """Refuse an unknown content coding, and a content-length above the limit."""
        if coding == "gzip":
            self._gzip = GzipDecoder()
        elif coding not in ("", "identity"):
            raise self._failed("has a content coding that was not requested")
        if length.isdigit() and int(length[:20]) > self._limits.max_bytes:
            raise self._too_large()

    async def before_deadline(self, read: Awaitable[bytes | None]) -> bytes | None:
        """Await the next part; raises ReadTimeout at the deadline of the whole response."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await read
        except TimeoutError:
            raise self.timeout_error() from None

    def timeout_error(self) -> httpx2.ReadTimeout:
        """The error for a response that is incomplete at its deadline."""
        return httpx2.ReadTimeout(
            f"{self._display_url} did not complete its response within {self._limits.seconds:g} seconds"
        )

    def decode(self, part: bytes) -> Iterator[bytes]:
        """Decompress a part in pieces of bounded size; each is counted before it is yielded."""
        self._received += len(part)
        if self._received > self._limits.max_bytes:
            raise self._too_large()
        try:
            for piece in [part] if self._gzip is None else self._gzip.feed(part):
                self._count(piece)
                yield piece
        except zlib.error:
            raise self._failed("cannot be decompressed") from None

    def finish(self) -> None:
        """Raise EgressFailed if the compressed body is truncated."""
        if self._gzip is not None and self._received and not self._gzip.complete:
            raise self._failed("is truncated")

    def _count(self, piece: bytes) -> None:
        self._decoded += len(piece)
        if self._decoded > self._limits.max_bytes:
            raise self._too_large()
        if self._decoded > max(RATIO_EXEMPT_BYTES, MAX_DECOMPRESSION_RATIO * self._received):
            raise self._failed(f"decompresses to more than {MAX_DECOMPRESSION_RATIO} times its size")

    def _too_large(self) -> EgressFailed:
        return self._failed(f"is larger than {self._limits.max_bytes} bytes")

    def _failed(self, reason: str) -> EgressFailed:
        return EgressFailed(f"the response of {self._display_url} {reason}")


class GzipDecoder:
    """Streaming gzip decoder that accepts up to MAX_GZIP_MEMBERS members: each costs time, also when it is empty."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._members = 1

    @property
    def complete(self) -> bool:
        """Whether the last member has ended."""
        return self._member.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress more data, in pieces of at most _CHUNK_BYTES; raises zlib.error for invalid data."""
        while True:
            if self._member.eof and data:
                self._next_member()
            piece = self._member.decompress(data, _CHUNK_BYTES)
            if piece:
                yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            # After a full piece zlib may hold more output, though it has consumed all of the data.
            if not data and (self._member.eof or len(piece) < _CHUNK_BYTES):
                return

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise zlib.error("too many members")
        self._member = zlib.decompressobj(_GZIP)
