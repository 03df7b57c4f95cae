"""What worker processes print, as records of the log: labelled with the tool, redacted, bounded in rate and size.

The standard output and error output of a worker are a pipe, which one thread of the hall reads for all of them. It
never stops reading, so that no tool waits for the log; what goes beyond the limits is counted and left out.
"""

import contextlib
import logging
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Iterable

from toolhall.model.secret import Secret
from toolhall.runners.redactor import Redactor

if sys.platform == "linux":
    import fcntl

LINE_LETTERS = 4_096  # of one line that are shown
BURST_LINES, LINES_A_SECOND = 200, 20
BURST_BYTES, BYTES_A_SECOND = 256 * 1024, 16 * 1024
_LINE_BYTES = 32 * 1024  # of a line without an end that are kept; a secret at the edge of what is shown is still whole
_CHUNK = 256 * 1024
_PAUSE_SECONDS = 0.02  # between two chunks that are left out: printing must not take a core of the hall
_MOST_SECRETS = 64
_HIDING = re.compile(r"[^\x20-\x7e\t]")
_log = logging.getLogger("toolhall.output")


class WorkerOutput:
    """What one worker process prints; `tool` names who is running there now, or was last."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self._secrets: dict[Secret, None] = {}
        self._redactor: Redactor | None = None
        self._rest = b""
        self._cut = 0
        self._lines, self._bytes, self._at = float(BURST_LINES), float(BURST_BYTES), time.monotonic()
        self._left_out = 0

    def hide(self, secrets: Iterable[Secret]) -> None:
        """From now on these are not told, however long after its call the process prints them."""
        new = [secret for secret in secrets if secret not in self._secrets]
        if new:
            self._secrets.update(dict.fromkeys(new))
            while len(self._secrets) > _MOST_SECRETS:
                del self._secrets[next(iter(self._secrets))]
            self._redactor = Redactor(tuple(self._secrets))

    def take(self, chunk: bytes) -> bool:
        """Log the lines that are complete now; False when there was more than may be logged."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return not self._cut
        whole, _, rest = chunk.rpartition(b"\n")
        whole, self._rest, self._cut, cut = self._rest + whole, b"", 0, self._cut
        self._keep(rest)
        return self._told(whole) and not cut

    def end(self) -> None:
        """Log what is left: nothing more comes."""
        if self._rest:
            self._told(self._rest)
            self._rest = b""
        if self._left_out:
            self._tell_left_out()

    def _keep(self, part: bytes) -> None:
        room = _LINE_BYTES - len(self._rest)
        self._rest += part[:room]
        self._cut += max(0, len(part) - room)

    def _told(self, whole: bytes) -> bool:
        self._refill()
        lines = whole.split(b"\n")
        if self._lines < 1 or self._bytes < 1:
            self._left_out += len(lines)
            return False
        if self._left_out:
            self._tell_left_out()
        text = whole.decode(errors="replace")
        # Together with what came before: a secret may be cut in two by the end of a line.
        text = text if self._redactor is None else self._redactor.next(f"{text}\n").removesuffix("\n")
        for line in text.split("\n"):
            if self._lines < 1 or self._bytes < 1:
                self._left_out += 1
                continue
            self._lines -= 1
            self._bytes -= len(line)
            if line.strip():
                self._tell(line)
        return self._left_out == 0

    def _tell(self, line: str) -> None:
        shown = line if len(line) <= LINE_LETTERS else f"{line[:LINE_LETTERS]} [cut]"
        # A warning, because that is what is shown unless something else was asked for, as what tools print always was.
        _log.warning("tool %s printed: %s", self.tool, _HIDING.sub(_visible, shown.rstrip("\r")))

    def _tell_left_out(self) -> None:
        _log.warning("tool %s printed too much: %d lines were left out", self.tool, self._left_out)
        self._left_out = 0

    def _refill(self) -> None:
        now = time.monotonic()
        passed, self._at = now - self._at, now
        self._lines = min(BURST_LINES, self._lines + passed * LINES_A_SECOND)
        self._bytes = min(BURST_BYTES, self._bytes + passed * BYTES_A_SECOND)


def _visible(match: re.Match[str]) -> str:
    letter = match[0]
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


class OutputReader:
    """One thread that reads the output of every worker; started with the first of them."""

    def __init__(self) -> None:
        self._paused: list[tuple[float, int, WorkerOutput]] = []
        self._new: list[tuple[int, WorkerOutput]] = []
        self._lock = threading.Lock()
        self._wake: int | None = None
        self._thread: threading.Thread | None = None

    def follow(self, descriptor: int, output: WorkerOutput) -> None:
        """Read this pipe to its end, and close it."""
        os.set_blocking(descriptor, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # its user has large pipes enough
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CHUNK)
        with self._lock:
            self._new.append((descriptor, output))
            if self._thread is None:
                heard, self._wake = os.pipe()
                os.set_blocking(heard, False)
                self._thread = threading.Thread(target=self._run, args=(heard,), name="toolhall-output", daemon=True)
                self._thread.start()
            elif self._wake is not None:
                os.write(self._wake, b"\0")

    def close(self) -> None:
        """Log what is there, and end; call it when the workers have ended."""
        with self._lock:
            wake, self._wake = self._wake, None
        if wake is not None:
            os.close(wake)
        if self._thread is not None:
            self._thread.join()

    def _run(self, heard: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(heard, selectors.EVENT_READ)
            while self._admit(heard, selector):
                wait = max(0.0, self._paused[0][0] - time.monotonic()) if self._paused else None
                for key, _ in selector.select(wait):
                    if key.fd != heard:
                        self._read(key.fd, key.data, selector)
                self._resume(selector)
            followed = [(key.fd, key.data) for key in selector.get_map().values() if key.fd != heard]
        paused = [(descriptor, output) for _, descriptor, output in self._paused]
        for descriptor, output in (*followed, *paused, *self._new):
            self._finish(descriptor, output)
        os.close(heard)

    def _admit(self, heard: int, selector: selectors.BaseSelector) -> bool:
        """Take in what is new; False when it is time to end."""
        with contextlib.suppress(BlockingIOError):
            if not os.read(heard, 4_096):
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
        elif not output.take(chunk):
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
                if not output.take(chunk):
                    break
        os.close(descriptor)
        output.end()
