"""`WorkerHandle`: starts, talks to, kills and reaps one worker process; `WorkerOutput`: logs its printed lines.

The standard output and error output of a worker are a pipe, which one thread of the hall (`OutputReader`) reads for all
workers. The lines become log records: labelled with the tool, redacted, bounded in rate and size. The thread never
stops reading, so that no tool waits for the log; lines beyond the limits are counted and dropped.
"""

import asyncio
import contextlib
import logging
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import msgspec

from toolhall.execution.function_ref import FunctionRef
from toolhall.execution.worker_protocol import (
    FRAME_HEADER_BYTES,
    KILL_WORKER_SIGNAL,
    HallMessage,
    StartWorker,
    WorkerLimits,
    WorkerMessage,
    decode_worker_message,
    encode_frame,
    frame_length,
)
from toolhall.model.errors import BadOutput
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor

if sys.platform == "linux":
    import fcntl

MAX_LINE_LENGTH = 4_096  # characters of one line that are logged
BURST_LINES, LINES_PER_SECOND = 200, 20
BURST_BYTES, BYTES_PER_SECOND = 256 * 1024, 16 * 1024
# Kept of a line without an end: more than is logged, so that a secret at the edge of what is logged is still whole.
_MAX_LINE_BYTES = 32 * 1024
_CHUNK = 256 * 1024
_PAUSE_SECONDS = 0.02  # between two chunks that are dropped: printing must not use up a core of the hall
_MAX_SECRETS = 64
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e\t]")
_POLL_SECONDS = 0.005
_EXIT_SECONDS = 5.0
_MAX_POLLS = 200  # within a second
# The worker must run the same code as the hall: without asserts if the hall runs without them.
_OPTIMIZE_FLAGS = ("-O",) * sys.flags.optimize
# The worker imports from the same paths as the hall, and this module is not its `__main__`.
_WORKER_PROGRAM = "import sys; sys.path[:] = {path!r}; from toolhall.execution.worker import main; main({descriptor})"
_log = logging.getLogger("toolhall.output")


class WorkerExited(Exception):
    """The process has ended, or has closed its socket."""


class ProtocolViolation(WorkerExited):
    """The process sent a message that no worker sends."""


class WorkerHandle:
    """One worker process and its supervisor: its socket, and its printed `output`."""

    def __init__(
        self, ref: FunctionRef, limits: WorkerLimits, environment: dict[str, str], hidden_paths: tuple[str, ...]
    ) -> None:
        self.output = WorkerOutput(ref.module)
        self._limits = limits
        self._buffer = bytearray()
        self._killed_at: float | None = None
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.setblocking(False)
        path = [entry for entry in sys.path if entry]
        program = _WORKER_PROGRAM.format(path=path, descriptor=theirs.fileno())
        self.output_fd, write_end = os.pipe()
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                    [sys.executable, "-I", *_OPTIMIZE_FLAGS, "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            os.close(self.output_fd)
            raise
        finally:
            os.close(write_end)
        self._start_message = StartWorker(ref, tuple(path), limits, os.getpid(), hidden_paths)

    @property
    def pid(self) -> int:
        """The process id of the supervisor, which exits as the worker does."""
        return self._process.pid

    async def handshake(self) -> WorkerMessage:
        """Send StartWorker; returns the first message: WorkerReady or ImportFailure."""
        await self.send(self._start_message)
        return await self.receive()

    async def send(self, message: HallMessage) -> None:
        """Send a message; raises WorkerExited if the process is gone."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, encode_frame(message))
        except OSError as error:
            raise WorkerExited from error

    async def receive(self) -> WorkerMessage:
        """The next message; raises BadOutput for one that is too large, before reading it."""
        size = frame_length(await self._receive_exactly(FRAME_HEADER_BYTES))
        if size > self._limits.result_bytes:
            raise BadOutput(f"the tool returned {size} bytes; that is more than is passed on")
        try:
            return decode_worker_message(await self._receive_exactly(size))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProtocolViolation from error

    async def wait_exit_code(self) -> int | None:
        """The exit code as `subprocess` gives it (negative: a signal); None if the process lives on for a second."""
        for _ in range(_MAX_POLLS):
            if (code := self._exit_code()) is not None:
                return code
            await asyncio.sleep(_POLL_SECONDS)
        return None

    def is_alive(self) -> bool:
        """Whether the process can take a call: a tool may have ended it after its result."""
        try:
            if not self._socket.recv(1, socket.MSG_PEEK):
                return False
        except BlockingIOError:
            return self._exit_code() is None
        except OSError:
            return False
        return self._exit_code() is None

    def _exit_code(self) -> int | None:
        """The exit code, if it has ended; without reaping, so that its id cannot go to another process."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def disconnect(self) -> None:
        """Let the worker leave its toolkits and end by itself; `reap` tells when it is gone, `kill` ends it anyway."""
        self._socket.close()

    def kill(self) -> None:
        """Kill the worker and everything it started; `reap` tells when they are gone."""
        if self._killed_at is None:
            self._killed_at = time.monotonic()
            # send_signal polls first: after the end of the process its id may be another's.
            self._process.send_signal(KILL_WORKER_SIGNAL)
        self._socket.close()

    def reap(self, *, wait: bool = False) -> bool:
        """Whether the process has ended; waits for that if asked to. Kills a supervisor that hangs after `kill`."""
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
        late = self._killed_at is not None and time.monotonic() - self._killed_at > _EXIT_SECONDS
        if late and self._process.poll() is None:
            self._process.kill()
            if wait:
                self._process.wait()
        return self._process.poll() is not None

    async def _receive_exactly(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        while len(self._buffer) < count:
            try:
                part = await loop.sock_recv(self._socket, _CHUNK)
            except OSError as error:
                raise WorkerExited from error
            if not part:
                raise WorkerExited
            self._buffer += part
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


class WorkerOutput:
    """The printed output of one worker process as log records; `tool` is the tool that runs in it, or ran last."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self._secrets: dict[Secret, None] = {}
        self._redactor: Redactor | None = None
        self._partial_line = b""
        self._cut_bytes = 0
        self._line_tokens, self._byte_tokens, self._refilled_at = (
            float(BURST_LINES),
            float(BURST_BYTES),
            time.monotonic(),
        )
        self._dropped_lines = 0

    def hide_secrets(self, secrets: Iterable[Secret]) -> None:
        """Redact these secrets from now on, also long after their call; the last 64 are remembered."""
        new = [secret for secret in secrets if secret not in self._secrets]
        if new:
            self._secrets.update(dict.fromkeys(new))
            while len(self._secrets) > _MAX_SECRETS:
                del self._secrets[next(iter(self._secrets))]
            self._redactor = Redactor(tuple(self._secrets))

    def feed(self, chunk: bytes) -> bool:
        """Log the lines that are complete now; False if some were dropped."""
        if b"\n" not in chunk:
            self._append(chunk)
            return not self._cut_bytes
        complete, _, rest = chunk.rpartition(b"\n")
        complete, self._partial_line, self._cut_bytes, cut = self._partial_line + complete, b"", 0, self._cut_bytes
        self._append(rest)
        return self._log_lines(complete) and not cut

    def finish(self) -> None:
        """Log what is left, at the end of the output."""
        if self._partial_line:
            self._log_lines(self._partial_line)
            self._partial_line = b""
        if self._dropped_lines:
            self._log_dropped()

    def _append(self, part: bytes) -> None:
        room = _MAX_LINE_BYTES - len(self._partial_line)
        self._partial_line += part[:room]
        self._cut_bytes += max(0, len(part) - room)

    def _log_lines(self, complete: bytes) -> bool:
        self._refill()
        lines = complete.split(b"\n")
        if self._line_tokens < 1 or self._byte_tokens < 1:
            self._dropped_lines += len(lines)
            return False
        if self._dropped_lines:
            self._log_dropped()
        text = complete.decode(errors="replace")
        # As a stream, together with what came before: a line end may split a secret.
        text = text if self._redactor is None else self._redactor.redact_next(f"{text}\n").removesuffix("\n")
        for line in text.split("\n"):
            if self._line_tokens < 1 or self._byte_tokens < 1:
                self._dropped_lines += 1
                continue
            self._line_tokens -= 1
            self._byte_tokens -= len(line)
            if line.strip():
                self._log_line(line)
        return self._dropped_lines == 0

    def _log_line(self, line: str) -> None:
        shown = line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]} [cut]"
        # A warning, so that it is shown at the default log level, as printed lines always were.
        _log.warning("tool %s printed: %s", self.tool, _NOT_PRINTABLE_ASCII.sub(_escape, shown.rstrip("\r")))

    def _log_dropped(self) -> None:
        _log.warning("tool %s printed too much: %d lines were left out", self.tool, self._dropped_lines)
        self._dropped_lines = 0

    def _refill(self) -> None:
        now = time.monotonic()
        passed, self._refilled_at = now - self._refilled_at, now
        self._line_tokens = min(BURST_LINES, self._line_tokens + passed * LINES_PER_SECOND)
        self._byte_tokens = min(BURST_BYTES, self._byte_tokens + passed * BYTES_PER_SECOND)


def _escape(match: re.Match[str]) -> str:
    letter = match[0]
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


class OutputReader:
    """One thread that reads the output of every worker; started with the first worker."""

    def __init__(self) -> None:
        self._paused: list[tuple[float, int, WorkerOutput]] = []
        self._new: list[tuple[int, WorkerOutput]] = []
        self._lock = threading.Lock()
        self._wake_fd: int | None = None
        self._thread: threading.Thread | None = None

    def follow(self, descriptor: int, output: WorkerOutput) -> None:
        """Read this pipe to its end, then close it."""
        os.set_blocking(descriptor, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # this user has used up its pages for pipes
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CHUNK)
        with self._lock:
            self._new.append((descriptor, output))
            if self._thread is None:
                wake_reader, self._wake_fd = os.pipe()
                os.set_blocking(wake_reader, False)
                self._thread = threading.Thread(
                    target=self._run, args=(wake_reader,), name="toolhall-output", daemon=True
                )
                self._thread.start()
            elif self._wake_fd is not None:
                os.write(self._wake_fd, b"\0")

    def close(self) -> None:
        """Log what the pipes still hold, and end the thread; to be called when the workers have ended."""
        with self._lock:
            wake, self._wake_fd = self._wake_fd, None
        if wake is not None:
            os.close(wake)
        if self._thread is not None:
            self._thread.join()

    def _run(self, wake_fd: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(wake_fd, selectors.EVENT_READ)
            while self._register_new(wake_fd, selector):
                wait = max(0.0, self._paused[0][0] - time.monotonic()) if self._paused else None
                for key, _ in selector.select(wait):
                    if key.fd != wake_fd:
                        self._read(key.fd, key.data, selector)
                self._resume(selector)
            followed = [(key.fd, key.data) for key in selector.get_map().values() if key.fd != wake_fd]
        paused = [(descriptor, output) for _, descriptor, output in self._paused]
        for descriptor, output in (*followed, *paused, *self._new):
            self._finish(descriptor, output)
        os.close(wake_fd)

    def _register_new(self, wake_fd: int, selector: selectors.BaseSelector) -> bool:
        """Register new pipes; False when the thread must end."""
        with contextlib.suppress(BlockingIOError):
            if not os.read(wake_fd, 4_096):
                return False
        with self._lock:
            new, self._new = self._new, []
        for descriptor, output in new:
            selector.register(descriptor, selectors.EVENT_READ, output)
        return True

    def _read(self, descriptor: int, output: WorkerOutput, selector: selectors.BaseSelector) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            selector.unregister(descriptor)
            self._finish(descriptor, output)
        elif not output.feed(chunk):
            selector.unregister(descriptor)
            self._paused.append((time.monotonic() + _PAUSE_SECONDS, descriptor, output))

    def _resume(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        while self._paused and self._paused[0][0] <= now:
            _, descriptor, output = self._paused.pop(0)
            selector.register(descriptor, selectors.EVENT_READ, output)

    def _finish(self, descriptor: int, output: WorkerOutput) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(descriptor, _CHUNK):
                if not output.feed(chunk):
                    break
        os.close(descriptor)
        output.finish()
