"""Redacts secrets in the output of a process that serves: `redacted_output`, RedactingWriter, RedactingPipe.

Theory of operation. `sys.stderr` is replaced by a stream that redacts and writes in one step, so that no output is
lost when the process dies. Child processes, C libraries and copies of the old stream write to file descriptor 2, or to
1, which a server points at 2. Descriptor 2 becomes a pipe: one thread reads it, another redacts and writes on. A
terminal stays a terminal: there only Python's own output is redacted, and child processes keep their colours.

Writers never block on the pipe, because its reader needs the interpreter, and C code that holds the GIL while it waits
for the reader would wait for ever. A write to a full pipe fails with EAGAIN and its data is lost; the pipe is therefore
made as large as the system allows, and it is emptied into memory as fast as it fills.
"""

import contextlib
import faulthandler
import io
import logging
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Generator
from typing import Any, TextIO

from toolhall.redaction.log_redaction import StreamRedactor

if sys.platform == "linux":
    import fcntl

_LOGGERS = ("toolhall",)
_STDOUT, _STDERR = 1, 2
_CHUNK = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_MAX_BUFFERED_BYTES = 8 * 1024 * 1024  # read and not written yet; further output is dropped and counted
_PARTIAL_LINE_SECONDS = 0.2  # how long the beginning of a line waits for its end
_DRAIN_SECONDS = 5.0
_PAUSE_FACTOR = 4  # pause after a full chunk, as a multiple of the time that writing it took
_MAX_PAUSE_SECONDS = 0.1


@contextlib.contextmanager
def redacted_output() -> Generator[None, None, None]:
    """Context in which this process and its children write no secret in use to stdout or stderr."""
    before = sys.stderr
    before.flush()
    target = os.dup(_STDERR)
    stream = io.TextIOWrapper(
        io.BufferedWriter(RedactingWriter(target)),
        encoding=before.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.stderr = stream
    _redirect_logs(before, stream)
    if faulthandler.is_enabled():  # its report must not depend on the pipe's thread
        faulthandler.enable(target)
    pump = None if sys.platform == "win32" or os.isatty(target) else RedactingPipe(target)
    try:
        yield
    finally:
        stream.flush()
        if pump is not None:
            pump.close()
        if sys.stdout is stream:
            sys.stdout = before
        sys.stderr = before
        _redirect_logs(stream, before)
        # The stream and its descriptor stay open: a thread that still runs may hold them.


def _redirect_logs(before: TextIO, after: TextIO) -> None:
    """Point the log handlers that write to one stream at another."""
    for name in _LOGGERS:
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(after)


class RedactingWriter(io.RawIOBase):
    """A raw stream that redacts what is written and writes it to `target`; `fileno` is 2, for child processes."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        self._redact = StreamRedactor()

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Descriptor 2: a child process that is given this stream writes into the redacting pipe."""
        return _STDERR

    def isatty(self) -> bool:
        """Whether the target is a terminal."""
        return os.isatty(self._target)

    def write(self, data: Any, /) -> int:
        """Redact and write all of it."""
        written = bytes(data)
        _write(self._target, self._redact(written))
        return len(written)


class RedactingPipe:
    """Replaces descriptor 2 by a pipe; one thread reads the pipe, another redacts lines and writes them to `target`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._redact = StreamRedactor()
        self._source, end = os.pipe()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the system does not allow so much
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(end, False)
        self._pipe_inode = os.fstat(end).st_ino
        os.dup2(end, _STDERR)
        os.close(end)
        self._stopped, self._stop = os.pipe()
        self._closing = False
        self._pending = b""  # the beginning of a line
        self._chunks = queue.SimpleQueue[bytes]()  # an empty chunk is the end
        self._read = self._written = self._dropped = (
            0  # bytes; the writer thread counts the second, the reader the others
        )
        self._reader = threading.Thread(target=self._read_pipe, name="toolhall-output-reader", daemon=True)
        self._writer = threading.Thread(target=self._write_lines, name="toolhall-output", daemon=True)
        self._reader.start()
        self._writer.start()

    def close(self) -> None:
        """Restore descriptors 1 and 2 and wait until the pipe is drained, at most 5 s; children may still hold it."""
        for number in (_STDOUT, _STDERR):
            with contextlib.suppress(OSError):
                if os.fstat(number).st_ino == self._pipe_inode:
                    os.dup2(self._target, number)
        self._closing = True
        os.close(self._stop)
        self._writer.join(_DRAIN_SECONDS)

    def _read_pipe(self) -> None:
        """Thread: empty the pipe until `close` was called and nothing is left, or no process can write to it."""
        chunk = b"."
        while chunk:
            ready, _, _ = select.select([self._source, self._stopped], [], [])
            chunk = os.read(self._source, _CHUNK) if self._source in ready else b""
            idle = self._read == self._written and not self._pending
            if idle and chunk.endswith(b"\n") and len(chunk) < _CHUNK:
                self._emit(chunk)  # at once: it may be the last output of the process
            elif self._read - self._written > _MAX_BUFFERED_BYTES and chunk:
                self._dropped += len(chunk)
            else:
                self._read += len(chunk)
                self._chunks.put(chunk)
        os.close(self._source)
        os.close(self._stopped)

    def _write_lines(self) -> None:
        """Thread: write what was read; while it is busy or holds a partial line, the reader queues everything."""
        reported = 0
        while True:
            try:
                chunk = self._chunks.get(timeout=_PARTIAL_LINE_SECONDS if self._pending else None)
            except queue.Empty:
                self._emit(self._pending)
                self._pending = b""
                continue
            self._pending = self._write_complete_lines(self._pending + chunk)
            if not chunk or (self._dropped > reported and self._chunks.empty()):
                self._emit(self._pending)
                self._pending = b""
                if self._dropped > reported:
                    lost, reported = self._dropped - reported, self._dropped
                    self._emit(b"\n%d bytes of output were dropped: they came too fast to be passed on\n" % lost)
            self._written += len(chunk)
            if not chunk:
                return

    def _write_complete_lines(self, pending: bytes) -> bytes:
        """Emit the complete lines, or all if it is a chunk long without a line end; return the rest.

        After a full chunk it pauses, so that a flood of output leaves the interpreter to other threads.
        """
        end = len(pending) if len(pending) >= _CHUNK else pending.rfind(b"\n") + 1
        started = time.monotonic()
        self._emit(pending[:end])
        if end >= _CHUNK and not self._closing:
            time.sleep(min(_MAX_PAUSE_SECONDS, _PAUSE_FACTOR * (time.monotonic() - started)))
        return pending[end:]

    def _emit(self, data: bytes) -> None:
        if data:
            with contextlib.suppress(OSError):  # the output was closed; the writers must not block
                _write(self._target, self._redact(data))


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:  # the descriptor shares a non-blocking open file
            select.select([], [target], [], 1.0)
