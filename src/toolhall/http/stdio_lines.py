"""Messages over standard input and output: `StdioLines` reads and writes lines, `serve_stdio` answers each one.

`open_stdio` redirects the process's own stdout to stderr, so that prints of tools cannot corrupt the protocol.
"""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

from toolhall.concurrency import BoundedTaskGroup
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import WireResponse

MAX_LINE = 4 * 1024 * 1024
_CHUNK = 64 * 1024
_HIGH_WATER = 1024 * 1024
MAX_CONCURRENT_MESSAGES = 256
DRAIN_SECONDS = 2.0
_CONNECTION = "stdio"  # the only connection


class StdioLines:
    """Reads lines from one file descriptor and writes lines to another, without blocking the event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: "asyncio.StreamWriter | _FileWriter", max_line: int = MAX_LINE
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._max_line = max_line

    def write(self, message: bytes) -> None:
        """Write one line; do nothing if the peer has closed its end."""
        if not self._writer.is_closing():
            self._writer.write(message + b"\n")

    @property
    def is_congested(self) -> bool:
        """Whether the peer reads so slowly that more than 1 MiB is buffered."""
        return isinstance(self._writer, asyncio.StreamWriter) and (
            self._writer.transport.get_write_buffer_size() > _HIGH_WATER
        )

    async def drain(self) -> None:
        """Wait while the write buffer is full."""
        await self._writer.drain()

    async def read(self) -> AsyncIterator[bytes | None]:
        """Yield every line that is not blank; None for one that is too long."""
        buffer, skipping = b"", False
        while chunk := await self._reader.read(_CHUNK):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if not skipping and line.strip():
                    yield line
                skipping = False
            if len(buffer) > self._max_line:
                buffer = b""
                if not skipping:
                    yield None
                skipping = True
        if buffer.strip() and not skipping:
            yield buffer


class _FileWriter:
    """Writes to a regular file, which never blocks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        os.write(self._descriptor, data)

    async def drain(self) -> None:
        return


async def open_stdio(max_line: int) -> StdioLines:
    """Take over this process's stdin and stdout; what tools print goes to stderr from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return StdioLines(await _reader(0), await _writer(private), max_line)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    if _is_pollable(descriptor):
        source = os.fdopen(os.dup(descriptor), "rb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    else:
        threading.Thread(target=_feed, args=(descriptor, reader, loop), daemon=True).start()
    return reader


def _is_pollable(descriptor: int) -> bool:
    """Whether it is a pipe, socket or terminal; a regular file is always ready, and uvloop aborts on polling it."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _feed(descriptor: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    while chunk := os.read(descriptor, _CHUNK):
        loop.call_soon_threadsafe(reader.feed_data, chunk)
    loop.call_soon_threadsafe(reader.feed_eof)


async def _writer(descriptor: int) -> "asyncio.StreamWriter | _FileWriter":
    if not _is_pollable(descriptor):
        return _FileWriter(descriptor)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def serve_stdio(
    lines: StdioLines, answer: Callable[[bytes | None, Caller, str], Awaitable[WireResponse]], max_body: int
) -> None:
    """Answer every line until the input ends, then give running calls two seconds to finish."""
    tasks = BoundedTaskGroup(MAX_CONCURRENT_MESSAGES)

    async def answer_line(line: bytes | None) -> None:
        wire = await answer(line, LOCAL, _CONNECTION)
        if wire.body:
            lines.write(wire.body)

    try:
        async for line in lines.read():
            await tasks.start(answer_line(None if line is None or len(line) > max_body else line))
            await lines.drain()
    finally:
        await tasks.shutdown(DRAIN_SECONDS)
