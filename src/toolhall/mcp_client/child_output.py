"""Output of a child process: FrameSplitter for the messages of standard output, ErrorOutput for error output."""

import logging
import re
import time
from collections.abc import Iterable

from toolhall.model.secret import Secret
from toolhall.model.text import clean_text
from toolhall.redaction.redactor import Redactor

KEPT_BYTES = 64 * 1024  # of the error output
LINES_PER_SECOND = 20
MAX_LINE_LENGTH = 4_096  # characters of one line that are logged
_MAX_LINE_BYTES = 16 * 1024  # kept of a line without an end: more than is logged, so that a secret there is whole
_MESSAGE_STARTS = (b"{", b"[")  # an object, or a batch of MCP 2025-03-26
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\t]")
_log = logging.getLogger("toolhall.upstream")


class FrameTooLarge(Exception):
    """A message is longer than messages may be."""


class FrameSplitter:
    """Cuts a stream of bytes into lines that may be JSON messages; other lines are skipped and counted."""

    def __init__(self, max_bytes: int) -> None:
        self.skipped = 0
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages that are complete now; raises FrameTooLarge."""
        head, newline, rest = chunk.partition(b"\n")
        self._parts.append(head)
        self._size += len(head)
        if self._size > self._max_bytes:
            raise FrameTooLarge
        if not newline:
            return []
        lines = [b"".join(self._parts)]
        if rest:
            lines += rest.split(b"\n")
            rest = lines.pop()
        self._parts, self._size = [rest], len(rest)
        said = [line for each in lines if (line := each.strip())]
        frames = [line for line in said if line.startswith(_MESSAGE_STARTS)]
        self.skipped += len(said) - len(frames)
        if len(rest) > self._max_bytes or any(len(frame) > self._max_bytes for frame in frames):
            raise FrameTooLarge
        return frames


class ErrorOutput:
    """The error output of a child: its end, for people, and each line in the log, 20 a second; both without secrets."""

    def __init__(self, label: str, secrets: Iterable[Secret]) -> None:
        self._label = label
        known = tuple(secrets)
        self._redactor = Redactor(known) if known else None
        self._partial_line = b""
        self._lines: list[str] = []
        self._kept = 0
        self._tokens, self._refilled_at = float(LINES_PER_SECOND), time.monotonic()
        self._dropped = 0

    @property
    def tail(self) -> str:
        """The last lines, cleaned and at most 64 KB of them."""
        return "\n".join(self._lines)

    @property
    def last_line(self) -> str:
        """The last line that is not empty; empty if there is none."""
        return self._lines[-1] if self._lines else ""

    def feed(self, chunk: bytes) -> bool:
        """Keep and log the lines that are complete now; False if some were not logged."""
        *lines, rest = (self._partial_line + chunk).split(b"\n")
        self._partial_line = rest[:_MAX_LINE_BYTES]
        dropped = self._dropped
        for line in lines:
            self._take(line)
        return self._dropped <= dropped

    def finish(self) -> None:
        """Keep and log what is left, at the end of the output."""
        line, self._partial_line = self._partial_line, b""
        self._take(line)
        self._tell_dropped()

    def _take(self, line: bytes) -> None:
        text = line[:_MAX_LINE_BYTES].decode(errors="replace")
        # As a stream, together with what came before: a line end may split a secret.
        text = text if self._redactor is None else self._redactor.redact_next(f"{text}\n")
        text = clean_text(text).strip()
        if not text:
            return
        text = text if len(text) <= MAX_LINE_LENGTH else f"{text[:MAX_LINE_LENGTH]} [cut]"
        self._lines.append(text)
        self._kept += len(text)
        while self._kept > KEPT_BYTES:
            self._kept -= len(self._lines.pop(0))
        self._write(text)

    def _write(self, text: str) -> None:
        now = time.monotonic()
        passed, self._refilled_at = now - self._refilled_at, now
        self._tokens = min(LINES_PER_SECOND, self._tokens + passed * LINES_PER_SECOND)
        if self._tokens < 1:
            self._dropped += 1
            return
        self._tell_dropped()
        self._tokens -= 1
        _log.info("%s printed: %s", self._label, _UNPRINTABLE.sub(_escape, text))

    def _tell_dropped(self) -> None:
        if self._dropped:
            _log.info("%s printed too much: %d lines were left out", self._label, self._dropped)
            self._dropped = 0


def _escape(match: re.Match[str]) -> str:
    letter = match[0]
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
