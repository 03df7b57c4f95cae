"""Messages over standard input and output: `StdioLines` reads and writes lines, `serve_stdio` answers each one.

`open_stdio` redirects the process's own stdout to stderr, so that prints of tools cannot corrupt the protocol.

Theory of operation. All lines that one read brings are passed on together, from a callback of the event loop and so
outside of any task: a call that is answered in its first step needs no further iteration of the loop. What is written
meanwhile, and later in one iteration, is one write. Reading pauses while the peer does not read, and whenever
`serve_stdio` has enough to do; `StdioLines` holds no more than one read and one incomplete line.
"""

import asyncio
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import IO, Literal, Protocol, TypeAlias

from toolhall.concurrency import BackgroundTasks
from toolhall.eager_tasks import EagerStarter
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import WireResponse

MAX_LINE = 4 * 1024 * 1024
_CHUNK = 64 * 1024
_HIGH_WATER = 1024 * 1024
_MAX_JOINED_BYTES = 64 * 1024
MAX_CONCURRENT_MESSAGES = 256
DRAIN_SECONDS = 2.0
_CONNECTION = "stdio"  # the only connection
Line: TypeAlias = bytes | None  # None: it was too long, and was skipped


class LineSource(Protocol):
    """Where lines come from; a transport, or a thread that reads a file."""

    def is_closing(self) -> bool:
        """Whether nothing more comes."""
        ...

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...


class LineTarget(Protocol):
    """Where lines go; a transport, or a file."""

    def is_closing(self) -> bool:
        """Whether the peer has closed its end."""
        ...

    def write(self, data: bytes) -> None:
        """Write without blocking."""
        ...

    def get_write_buffer_size(self) -> int:
        """How many bytes the peer has yet to read."""
        ...


class StdioLines(asyncio.Protocol):
    """Reads lines from one file descriptor and writes lines to another, without blocking the event loop."""

    source: LineSource
    target: LineTarget

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_line = max_line
        self._on_lines: Callable[[Sequence[Line]], None] | None = None
        self._early: list[Line] = []  # that were read before `serve`
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._incomplete = b""  # the last line
        self._is_skipping = False  # the rest of a line that is too long
        self._pauses: set[str] = set()  # why nothing is read now
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._is_receiving = False  # what is written meanwhile is written at its end

    async def serve(self, on_lines: Callable[[Sequence[Line]], None]) -> None:
        """Call this with the lines of each read that are not blank, until the input ends or the peer has gone."""
        self._on_lines = on_lines
        self._pass_on(self._early)
        await self._ended

    def write(self, message: bytes) -> None:
        """Write one line, together with others of this iteration of the loop; dropped if the peer has gone."""
        if not self._unwritten and not self._is_receiving:
            self._loop.call_soon(self.flush)
        self._unwritten.append(message)
        self._unwritten_bytes += len(message)
        if self._unwritten_bytes > _MAX_JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write now what was to be written together."""
        if self._unwritten:
            lines, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
            if not self.target.is_closing():
                lines.append(b"")
                self.target.write(b"\n".join(lines))

    @property
    def is_congested(self) -> bool:
        """Whether the peer reads so slowly that more than 1 MiB is buffered."""
        return self.target.get_write_buffer_size() + self._unwritten_bytes > _HIGH_WATER

    def pause(self, reason: str) -> None:
        """Read nothing more until this reason and every other one has gone."""
        if not self._pauses and not self.source.is_closing():
            self.source.pause_reading()
        self._pauses.add(reason)

    def resume(self, reason: str) -> None:
        """Read on, unless there is another reason to pause."""
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses and not self.source.is_closing():
                self.source.resume_reading()

    # --- asyncio.Protocol of the input ---

    def data_received(self, data: bytes) -> None:
        """Pass on the lines that are complete."""
        *lines, rest = (self._incomplete + data).split(b"\n")
        if lines and self._is_skipping:
            del lines[0]
            self._is_skipping = False
        found: list[Line] = [line for line in lines if line and not line.isspace()]
        if self._is_skipping:
            rest = b""
        elif len(rest) > self._max_line:
            rest, self._is_skipping = b"", True
            found.append(None)
        self._incomplete = rest
        self._pass_on(found)

    def eof_received(self) -> None:
        """The input has ended; its last line may lack its line end."""
        last, self._incomplete = self._incomplete, b""
        if last.strip():
            self._pass_on([last])
        self.end()

    def end(self) -> None:
        """End `serve`."""
        if not self._ended.done():
            self._ended.set_result(None)

    def _pass_on(self, lines: list[Line]) -> None:
        if self._on_lines is None:
            self._early += lines
            return
        if not lines or self._ended.cancelled():
            return
        self._is_receiving = True
        try:
            self._on_lines(lines)
        except Exception as error:  # noqa: BLE001 - raised by `serve`
            if not self._ended.done():
                self._ended.set_exception(error)
        finally:
            self._is_receiving = False
            self.flush()


class _TargetProtocol(asyncio.BaseProtocol):
    """Pauses reading while the peer does not read, and ends `serve` when it has closed its end."""

    def __init__(self, lines: StdioLines) -> None:
        self._lines = lines

    def pause_writing(self) -> None:
        self._lines.pause("output")

    def resume_writing(self) -> None:
        self._lines.resume("output")

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lines.end()


class _FileSource:
    """Reads a regular file in a thread, one chunk at a time."""

    def __init__(self, descriptor: int, lines: StdioLines) -> None:
        self._descriptor = descriptor
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_paused = False
        threading.Thread(target=self._read, daemon=True).start()

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._may_read.set()

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop was closed
            while chunk := os.read(self._descriptor, _CHUNK):
                self._may_read.clear()
                self._loop.call_soon_threadsafe(self._deliver, chunk)
                self._may_read.wait()
            self._loop.call_soon_threadsafe(self._lines.eof_received)

    def _deliver(self, chunk: bytes) -> None:
        self._lines.data_received(chunk)
        if not self._is_paused:
            self._may_read.set()


class _FileTarget:
    """Writes to a regular file, which never blocks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        os.write(self._descriptor, data)


async def open_stdio(max_line: int) -> StdioLines:
    """Take over this process's stdin and stdout; what tools print goes to stderr from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return await open_lines(os.dup(0), private, max_line)


async def open_lines(source: int, target: int, max_line: int = MAX_LINE) -> StdioLines:
    """Read lines from one file descriptor and write lines to the other."""
    loop, lines = asyncio.get_running_loop(), StdioLines(max_line)
    if _is_pollable(target):
        lines.target, _ = await loop.connect_write_pipe(lambda: _TargetProtocol(lines), open_pipe(target, "wb"))
    else:
        lines.target = _FileTarget(target)
    if _is_pollable(source):
        lines.source, _ = await loop.connect_read_pipe(lambda: lines, open_pipe(source, "rb"))
    else:
        lines.source = _FileSource(source, lines)
    return lines


def open_pipe(descriptor: int, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """Return the descriptor as the file that a transport of the running loop takes over, and closes exactly once.

    The transports of uvloop close the descriptor and then the file. Another thread may have opened a file in between,
    which then has the same number: that one would be closed.
    """
    closes_file_only = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    return os.fdopen(descriptor, mode, buffering=0, closefd=closes_file_only)


def _is_pollable(descriptor: int) -> bool:
    """Whether it is a pipe, socket or terminal; a regular file is always ready, and uvloop aborts on polling it."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def serve_stdio(
    lines: StdioLines, answer: Callable[[bytes | None, Caller, str], Awaitable[WireResponse]], max_body: int
) -> None:
    """Answer every line until the input ends, then give running calls two seconds to finish."""
    server = _LineServer(lines, answer, max_body)
    try:
        await lines.serve(server.receive)
    finally:
        await server.shutdown()
        lines.flush()


class _LineServer:
    """Answers lines, a limited number at a time; reading pauses while others wait."""

    def __init__(
        self, lines: StdioLines, answer: Callable[[bytes | None, Caller, str], Awaitable[WireResponse]], max_body: int
    ) -> None:
        self._lines = lines
        self._answer = answer
        self._max_body = max_body
        self._starter = EagerStarter(asyncio.get_running_loop(), "stdio message")
        self._running = BackgroundTasks()
        self._waiting: deque[Line] = deque()

    def receive(self, lines: Sequence[Line]) -> None:
        """Answer these lines, or keep them until others have been answered."""
        self._waiting.extend(lines)
        self._start()

    async def shutdown(self) -> None:
        """Give running calls two seconds to finish."""
        await self._running.shutdown(DRAIN_SECONDS)

    def _start(self) -> None:
        while self._waiting and len(self._running) < MAX_CONCURRENT_MESSAGES:
            task = self._starter.start(self._answer_line(self._waiting.popleft()))
            if not task.done():
                self._running.add(task).add_done_callback(lambda _: self._start())
        if self._waiting:
            self._lines.pause("busy")
        else:
            self._lines.resume("busy")

    async def _answer_line(self, line: Line) -> None:
        wire = await self._answer(None if line is None or len(line) > self._max_body else line, LOCAL, _CONNECTION)
        if wire.body:
            self._lines.write(wire.body)
