"""The output of a process that runs tools: whatever it and its children write is redacted on its way out.

Python's own `sys.stderr` is replaced by a stream that redacts and writes in one step, so that nothing it was given is
lost when the process dies. What does not go through it (children, C libraries, copies of the old stream) writes to the
file descriptor 2, or to 1, which a server points at 2. Descriptor 2 becomes a pipe, which one thread reads and another
redacts and writes on. A terminal stays what it is: there only Python's own output is redacted, and children keep their
colours.

Nobody waits for the pipe: its reader needs the interpreter, and C code that holds the interpreter's lock while it waits
for the reader would wait for ever. A write to a full pipe fails (`EAGAIN`), and what it would have written is lost. The
pipe is therefore made as large as the system allows, and it is emptied into memory as fast as it fills.
"""

import contextlib
import faulthandler
import io
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

from toolhall.cli.logs import move_log
from toolhall.runners.discretion import StreamRedactor

if sys.platform == "linux":
    import fcntl

_STDOUT, _STDERR = 1, 2
_CHUNK = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_MOST_HELD = 8 * 1024 * 1024  # bytes that were read and not written yet; what comes then is dropped, and counted
_UNFINISHED_SECONDS = 0.2  # how long the beginning of a line waits for its end
_DRAIN_SECONDS = 5.0
_REST = 4  # after a full chunk: seconds of rest for each that it took, so that a flood leaves the interpreter to others
_MOST_REST = 0.1


@contextlib.contextmanager
def redacted_output() -> Generator[None, None, None]:
    """Meanwhile no secret in use is written to the outputs of this process."""
    before = sys.stderr
    before.flush()
    target = os.dup(_STDERR)
    stream = io.TextIOWrapper(
        io.BufferedWriter(RedactedOutput(target)),
        encoding=before.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.stderr = stream
    move_log(before, stream)
    if faulthandler.is_enabled():  # its report must not wait for a thread
        faulthandler.enable(target)
    pump = None if sys.platform == "win32" or os.isatty(target) else OutputPump(target)
    try:
        yield
    finally:
        stream.flush()
        if pump is not None:
            pump.close()
        if sys.stdout is stream:
            sys.stdout = before
        sys.stderr = before
        move_log(stream, before)
        # The stream and its descriptor stay open: a thread that still runs may hold them.


class RedactedOutput(io.RawIOBase):
    """Writes to a descriptor what it is given, redacted; to others it is the descriptor 2 of the process."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        self._redact = StreamRedactor()

    def writable(self) -> bool:
        """Nothing else."""
        return True

    def fileno(self) -> int:
        """What a child is given whose output is to go the same way."""
        return _STDERR

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return os.isatty(self._target)

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        given = bytes(data)
        _write(self._target, self._redact(given))
        return len(given)


class OutputPump:
    """Takes the place of descriptor 2: a pipe, a thread that reads it, and one that passes it on, line by line."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._redact = StreamRedactor()
        self._source, end = os.pipe()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # it is not allowed so much
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(end, False)
        self._pipe = os.fstat(end).st_ino
        os.dup2(end, _STDERR)
        os.close(end)
        self._stopped, self._stop = os.pipe()
        self._closing = False
        self._pending = b""  # the beginning of a line
        self._chunks = queue.SimpleQueue[bytes]()  # an empty one is the end
        self._read = self._passed = self._dropped = 0  # bytes; the reader counts the first and the last
        self._reader = threading.Thread(target=self._fill, name="toolhall-output-reader", daemon=True)
        self._thread = threading.Thread(target=self._run, name="toolhall-output", daemon=True)
        self._reader.start()
        self._thread.start()

    def close(self) -> None:
        """Give the descriptors back, and wait until what was written is out; children may still hold the pipe."""
        for number in (_STDOUT, _STDERR):
            with contextlib.suppress(OSError):
                if os.fstat(number).st_ino == self._pipe:
                    os.dup2(self._target, number)
        self._closing = True
        os.close(self._stop)
        self._thread.join(_DRAIN_SECONDS)

    def _fill(self) -> None:
        """Empty the pipe, until it is to stop and nothing is left, or nobody can write any more."""
        chunk = b"."
        while chunk:
            ready, _, _ = select.select([self._source, self._stopped], [], [])
            chunk = os.read(self._source, _CHUNK) if self._source in ready else b""
            idle = self._read == self._passed and not self._pending
            if idle and chunk.endswith(b"\n") and len(chunk) < _CHUNK:
                self._emit(chunk)  # at once: they may be the last words of the process
            elif self._read - self._passed > _MOST_HELD and chunk:
                self._dropped += len(chunk)
            else:
                self._read += len(chunk)
                self._chunks.put(chunk)
        os.close(self._source)
        os.close(self._stopped)

    def _run(self) -> None:
        """Pass on what was read; while it does, or holds the beginning of a line, the reader leaves all to it."""
        told = 0
        while True:
            try:
                chunk = self._chunks.get(timeout=_UNFINISHED_SECONDS if self._pending else None)
            except queue.Empty:
                self._emit(self._pending)
                self._pending = b""
                continue
            self._pending = self._pass_on(self._pending + chunk)
            if not chunk or (self._dropped > told and self._chunks.empty()):
                self._emit(self._pending)
                self._pending = b""
                if self._dropped > told:
                    lost, told = self._dropped - told, self._dropped
                    self._emit(b"\n%d bytes of output were dropped: they came too fast to be passed on\n" % lost)
            self._passed += len(chunk)
            if not chunk:
                return

    def _pass_on(self, pending: bytes) -> bytes:
        """Emit whole lines, and what is too long to wait for the end of its line; return the rest."""
        end = len(pending) if len(pending) >= _CHUNK else pending.rfind(b"\n") + 1
        began = time.monotonic()
        self._emit(pending[:end])
        if end >= _CHUNK and not self._closing:
            time.sleep(min(_MOST_REST, _REST * (time.monotonic() - began)))
        return pending[end:]

    def _emit(self, data: bytes) -> None:
        if data:
            with contextlib.suppress(OSError):  # nobody reads it any more, and who writes must not wait for that
                _write(self._target, self._redact(data))


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:  # it shares its file with an output that must not block
            select.select([], [target], [], 1.0)
