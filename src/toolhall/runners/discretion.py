"""Keeps the secrets that calls use out of the log, the streams and the hooks of the process, whoever writes there.

A call marks its redactor with `hush` while its tool runs. What the call's own task and threads log is redacted by it.
The secrets that the tool was given are also known to the whole process (`SecretsInUse`), as long as the call runs and
for a while after it: so that a thread, a task, a finalizer or a child process of the tool cannot log them either.
"""

import logging
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TextIO

from toolhall.model.secret import Secret
from toolhall.runners.redactor import Redactor

LINGER_SECONDS = 300.0  # a task that nobody waits for is reported when the garbage collector finds it
MOST_RECENT = 32  # each costs a search of every line

_running: ContextVar[Redactor | None] = ContextVar("toolhall_redactor", default=None)


class SecretsInUse:
    """The secrets that tools of this process have now, and those that they had a short while ago.

    Only calls take the lock. Whoever writes a line does not: it may be a finalizer, which runs anywhere.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[Secret, int] = {}
        self._recent: dict[Secret, float] = {}  # until when; the oldest first; replaced, never changed

    def begin(self, secrets: tuple[Secret, ...]) -> None:
        """A call was given these."""
        with self._lock:
            for secret in secrets:
                self._calls[secret] = self._calls.get(secret, 0) + 1

    def end(self, secrets: tuple[Secret, ...]) -> None:
        """That call has ended. Each secret is among the recent ones before it is no longer one of a call."""
        with self._lock:
            now = self._clock()
            last = [secret for secret in secrets if self._calls.get(secret, 1) <= 1]
            if last:
                recent = dict(self._recent)
                for secret in last:
                    recent.pop(secret, None)
                    recent[secret] = now + LINGER_SECONDS
                while len(recent) > MOST_RECENT or recent[next(iter(recent))] <= now:
                    del recent[next(iter(recent))]
                self._recent = recent
            for secret in secrets:
                left = self._calls.get(secret, 1) - 1
                if left > 0:
                    self._calls[secret] = left
                else:
                    self._calls.pop(secret, None)

    def redactor(self) -> Redactor | None:
        """What hides them all; None where there are none."""
        calls = list(self._calls)  # before the recent ones, which those of calls become
        recent = self._recent
        if not calls and not recent:
            return None
        now = self._clock()
        secrets = dict.fromkeys([*calls, *(secret for secret, until in recent.items() if until > now)])
        return Redactor(tuple(secrets)) if secrets else None


IN_USE = SecretsInUse()


def hush(redactor: Redactor | None) -> "Token[Redactor | None]":
    """What this task and its threads log until `unhush` is told without the secrets that the redactor knows."""
    if redactor is not None and redactor.lent:
        IN_USE.begin(redactor.lent)
    return _running.set(redactor)


def unhush(hushed: "Token[Redactor | None]") -> None:
    """The end of what `hush` began, in the same task."""
    redactor = _running.get()
    _running.reset(hushed)
    if redactor is not None and redactor.lent:
        IN_USE.end(redactor.lent)


class StreamRedactor:
    """Hides the secrets in use in a stream of bytes; one that is cut in two, wherever, is hidden in both pieces."""

    def __init__(self) -> None:
        self._tail = ""

    def __call__(self, data: bytes) -> bytes:
        """The next piece without them; nothing is held back."""
        redactor = IN_USE.redactor()
        if redactor is None:
            self._tail = ""
            return data
        whole_lines = data.endswith(b"\n")
        if whole_lines and not self._tail:
            return redactor.data(data)
        redactor.tail = self._tail
        text = redactor.next(data.decode(errors="surrogateescape"))
        self._tail = "" if whole_lines else redactor.tail
        return text.encode(errors="surrogateescape")


class Discreet:
    """Makes log records without the secrets of the running call and those in use: in message and traceback.

    A filter would hold for one logger only; here, also the HTTP client that a tool uses is heard by us first.
    """

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """The record, with as little in it as may be told."""
        record = self._make(*args, **kwargs)
        for redactor in (_running.get(), IN_USE.redactor()):
            if redactor is not None:
                _redact(record, redactor)
        return record


def _redact(record: logging.LogRecord, redactor: Redactor) -> None:
    record.msg, record.args = redactor.text(_message(record)), None
    if record.exc_info and record.exc_info[0] is not None:
        # Never with local variables: they hold what no text shows.
        record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        record.exc_info = None
    if record.exc_text:
        record.exc_text = redactor.text(record.exc_text)
    if record.stack_info:
        record.stack_info = redactor.text(record.stack_info)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the logging module would print the arguments instead
        return f"a message of {record.name} could not be written"


class DiscreetHooks:
    """The interpreter's hooks for what nobody catches: with a secret in it the text is printed without, else as before.

    The handler of an event loop needs none: what it is told it logs.
    """

    def __init__(self) -> None:
        self._exception = sys.excepthook
        self._thread = threading.excepthook
        self._unraisable = sys.unraisablehook
        self._warning = warnings.showwarning

    def install(self) -> None:
        """From now on; what somebody else installs later wins."""
        sys.excepthook = self.exception
        threading.excepthook = self.thread
        sys.unraisablehook = self.unraisable
        warnings.showwarning = self.warning

    def exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """What ends the program."""
        if not _told("", error, trace):
            self._exception(kind, error, trace)

    def thread(self, args: threading.ExceptHookArgs) -> None:
        """What ends a thread."""
        name = args.thread.name if args.thread else threading.get_ident()
        if not _told(f"Exception in thread {name}:\n", args.exc_value, args.exc_traceback):
            self._thread(args)

    def unraisable(self, args: "sys.UnraisableHookArgs") -> None:
        """What a finalizer raises."""
        what = f"{args.err_msg or 'Exception ignored in'}: {_shown(args.object)}\n"
        if not _told(what, args.exc_value, args.exc_traceback):
            self._unraisable(args)

    def warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """A warning."""
        if not _told(warnings.formatwarning(message, category, filename, lineno, line), None, None, file):
            self._warning(message, category, filename, lineno, file, line)


def _told(said: str, error: BaseException | None, trace: TracebackType | None, file: TextIO | None = None) -> bool:
    """Print it without the secrets in use; False, and nothing is printed, if there are none in it."""
    redactor = IN_USE.redactor()
    if redactor is None:
        return False
    if error is not None:
        said += "".join(traceback.format_exception(type(error), error, trace))
    hidden = redactor.text(said)
    if hidden == said:
        return False
    stream = file or sys.stderr
    if stream is not None:
        stream.write(hidden)
        stream.flush()
    return True


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object that is half gone
        return f"<a {type(value).__name__}>"


def keep_discreet() -> None:
    """From now on, in this process; a second time does nothing more."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, Discreet):
        logging.setLogRecordFactory(Discreet(make))
        DiscreetHooks().install()
