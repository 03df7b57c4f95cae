"""Sets up a process that runs tools: protects its secrets, redacts its output, chooses its event loop.

ServeConfig is one start of the server as a worker process is told it. `protect_process` disables core dumps and ptrace and
wipes secret environment variables; `clear_secret_env` removes them from `os.environ` once they were read.

Theory of operation of `redacted_output`. `sys.stderr` is replaced by a stream that redacts and writes in one step, so that
nothing it was given is lost when the process dies. Child processes, C libraries and copies of the old stream write to file
descriptor 2, or to 1, which a server points at 2. Descriptor 2 becomes a pipe: one thread reads it, another redacts and
writes on. A terminal stays a terminal: there only Python's own output is redacted, and child processes keep their colours.
Writers never block on the pipe, because its reader needs the interpreter, and C code that holds the GIL while it waits for
the reader would wait for ever. A write to a full pipe fails with EAGAIN and its data is lost; the pipe is therefore made as
large as the system allows, and it is emptied into memory as fast as it fills.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import io
import logging
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, TextIO

import msgspec

from toolhall.config import Config
from toolhall.redaction.log_redaction import StreamRedactor


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server, in the form that every way of serving reads, a child process too."""

    targets: tuple[str, ...]
    config: Config
    host: str | None  # as given on the command line
    port: int | None  # as given on the command line
    data: str | None = None  # as given on the command line
    file: str | None = None  # of settings, as given on the command line
    stated: tuple[str, ...]  # settings that the command line names, also for an author's own Toolhall
    unnamed: bool = False  # nobody named the data folder, so it is the project's
    workers: int
    json: bool
    stdio: bool = False
    sibling: bool = False  # another process of the same family has opened the data folder first
    dialect: str = "mcp"  # spoken on standard input and output

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings that the command line names, with their values."""
        return {name: getattr(self.config, name) for name in self.stated}


if sys.platform != "win32":
    import resource
_SECRET_VARIABLES = ("TOOLHALL_KEY", "TOOLHALL_OXP_SECRET", "TOOLHALL_PROVIDERS", "TOOLHALL_VAULT_KEY")
_PR_SET_DUMPABLE = 4


def protect_process() -> None:
    """Close what other processes could read this one's secrets from; call it first in every process that serves.

    No core dump is written. On Linux the secret variables are also wiped from the memory that `/proc/PID/environ`
    shows (`os.environ` keeps its own copy until `forget_secrets`), and the process is no longer dumpable: another
    process of the same user can neither trace it nor open its `/proc/PID/mem`, `environ`, `fd` and `root`.
    """
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        _wipe_env_memory(libc, _SECRET_VARIABLES)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def secret_env_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which a hall is told its own secrets."""
    return {name: environment[name] for name in _SECRET_VARIABLES if name in environment}


def clear_secret_env() -> None:
    """Once they were read: the environment is for every tool to read, and for every program that a tool starts."""
    for name in secret_env_in(os.environ):
        del os.environ[name]


def _wipe_env_memory(libc: ctypes.CDLL, names: Collection[str]) -> None:
    """Overwrite the values where the kernel put them at exec; `unsetenv` alone drops the pointer, not the bytes."""
    if ctypes.c_void_p.in_dll(libc, "environ").value is None:
        return
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    wanted = tuple(f"{name}=".encode() for name in names)
    place = 0
    while address := entries[place]:
        entry = ctypes.string_at(address)
        if entry.startswith(wanted):
            start = entry.index(b"=") + 1
            ctypes.memset(address + start, 0, len(entry) - start)
        place += 1
    for name in names:
        libc.unsetenv(name.encode())


new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    import uvloop

    new_event_loop = uvloop.new_event_loop
except ImportError:  # not on Windows, and not with every Python
    pass
if sys.platform == "linux":
    import fcntl
_STDOUT, _STDERR = 1, 2
_CHUNK = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_MAX_BUFFERED_BYTES = (
    8 * 1024 * 1024
)  # bytes that were read and not written yet; what comes then is dropped, and counted
_PARTIAL_LINE_SECONDS = 0.2  # how long the beginning of a line waits for its end
_DRAIN_SECONDS = 5.0
_PAUSE_FACTOR = (
    4  # after a full chunk: seconds of rest for each that it took, so that a flood leaves the interpreter to others
)
_MAX_PAUSE_SECONDS = 0.1


@contextlib.contextmanager
def redacted_output() -> Generator[None, None, None]:
    """Meanwhile no secret in use is written to the outputs of this process."""
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
    redirect_logs(before, stream)
    if faulthandler.is_enabled():  # its report must not wait for a thread
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
        redirect_logs(stream, before)

        # The stream and its descriptor stay open: a thread that still runs may hold them.


_LOGGERS = ("toolhall", "uvicorn.error")


def redirect_logs(before: TextIO, after: TextIO) -> None:
    """Write the log to another stream from now on."""
    for name in _LOGGERS:
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                handler.setStream(after)


class RedactingWriter(io.RawIOBase):
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


class RedactingPipe:
    """Takes the place of descriptor 2: a pipe, a thread that reads it, and one that passes it on, line by line."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._redact = StreamRedactor()
        self._source, end = os.pipe()
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # it is not allowed so much
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(end, False)
        self._pipe_inode = os.fstat(end).st_ino
        os.dup2(end, _STDERR)
        os.close(end)
        self._stopped, self._stop = os.pipe()
        self._closing = False
        self._pending = b""  # the beginning of a line
        self._chunks = queue.SimpleQueue[bytes]()  # an empty one is the end
        self._read = self._written = self._dropped = 0  # bytes; the reader counts the first and the last
        self._reader = threading.Thread(target=self._read_pipe, name="toolhall-output-reader", daemon=True)
        self._writer = threading.Thread(target=self._write_lines, name="toolhall-output", daemon=True)
        self._reader.start()
        self._writer.start()

    def close(self) -> None:
        """Give the descriptors back, and wait until what was written is out; children may still hold the pipe."""
        for number in (_STDOUT, _STDERR):
            with contextlib.suppress(OSError):
                if os.fstat(number).st_ino == self._pipe_inode:
                    os.dup2(self._target, number)
        self._closing = True
        os.close(self._stop)
        self._writer.join(_DRAIN_SECONDS)

    def _read_pipe(self) -> None:
        """Empty the pipe, until it is to stop and nothing is left, or nobody can write any more."""
        chunk = b"."
        while chunk:
            ready, _, _ = select.select([self._source, self._stopped], [], [])
            chunk = os.read(self._source, _CHUNK) if self._source in ready else b""
            idle = self._read == self._written and not self._pending
            if idle and chunk.endswith(b"\n") and len(chunk) < _CHUNK:
                self._emit(chunk)  # at once: they may be the last words of the process
            elif self._read - self._written > _MAX_BUFFERED_BYTES and chunk:
                self._dropped += len(chunk)
            else:
                self._read += len(chunk)
                self._chunks.put(chunk)
        os.close(self._source)
        os.close(self._stopped)

    def _write_lines(self) -> None:
        """Pass on what was read; while it does, or holds the beginning of a line, the reader leaves all to it."""
        told = 0
        while True:
            try:
                chunk = self._chunks.get(timeout=_PARTIAL_LINE_SECONDS if self._pending else None)
            except queue.Empty:
                self._emit(self._pending)
                self._pending = b""
                continue
            self._pending = self._write_complete_lines(self._pending + chunk)
            if not chunk or (self._dropped > told and self._chunks.empty()):
                self._emit(self._pending)
                self._pending = b""
                if self._dropped > told:
                    lost, told = self._dropped - told, self._dropped
                    self._emit(b"\n%d bytes of output were dropped: they came too fast to be passed on\n" % lost)
            self._written += len(chunk)
            if not chunk:
                return

    def _write_complete_lines(self, pending: bytes) -> bytes:
        """Emit whole lines, and what is too long to wait for the end of its line; return the rest."""
        end = len(pending) if len(pending) >= _CHUNK else pending.rfind(b"\n") + 1
        began = time.monotonic()
        self._emit(pending[:end])
        if end >= _CHUNK and not self._closing:
            time.sleep(min(_MAX_PAUSE_SECONDS, _PAUSE_FACTOR * (time.monotonic() - began)))
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
