"""Redacts secrets in use from log records, output streams and exception hooks of this process.

A call activates its redactor with `start_redaction` while its tool runs: what the call's own task and threads log goes
through it. The secrets that the tool was given are also known to the whole process (`SecretsInUse`) while the call runs
and for `RECENT_SECONDS` after it, so that a thread, a task, a finalizer or a child process of the tool cannot log them
either. `install_log_redaction` installs the log record factory and the hooks, once per process.
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
from toolhall.redaction.redactor import Redactor

RECENT_SECONDS = 300.0  # a task that nobody waits for is reported when the garbage collector finds it
MAX_RECENT = 32  # each costs a search of every line
_call_redactor: ContextVar[Redactor | None] = ContextVar("toolhall_redactor", default=None)


class SecretsInUse:
    """The secrets that tools of this process have now, and those that they had a short while ago.

    Only calls take the lock. Whoever writes a line does not: it may be a finalizer, which runs anywhere.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[Secret, int] = {}
        self._recent: dict[Secret, float] = {}  # until when; the oldest first; replaced, never changed

    def acquire(self, secrets: tuple[Secret, ...]) -> None:
        """A call was given these."""
        with self._lock:
            for secret in secrets:
                self._calls[secret] = self._calls.get(secret, 0) + 1

    def release(self, secrets: tuple[Secret, ...]) -> None:
        """That call has ended. Each secret is among the recent ones before it is no longer one of a call."""
        with self._lock:
            now = self._clock()
            last = [secret for secret in secrets if self._calls.get(secret, 1) <= 1]
            if last:
                recent = dict(self._recent)
                for secret in last:
                    recent.pop(secret, None)
                    recent[secret] = now + RECENT_SECONDS
                while len(recent) > MAX_RECENT or recent[next(iter(recent))] <= now:
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


SECRETS_IN_USE = SecretsInUse()


def start_redaction(redactor: Redactor | None) -> "Token[Redactor | None]":
    """What this task and its threads log until `unhush` is told without the secrets that the redactor knows."""
    if redactor is not None and redactor.tool_secrets:
        SECRETS_IN_USE.acquire(redactor.tool_secrets)
    return _call_redactor.set(redactor)


def stop_redaction(token: "Token[Redactor | None]") -> None:
    """The end of what `hush` began, in the same task."""
    redactor = _call_redactor.get()
    _call_redactor.reset(token)
    if redactor is not None and redactor.tool_secrets:
        SECRETS_IN_USE.release(redactor.tool_secrets)


class StreamRedactor:
    """Hides the secrets in use in a stream of bytes; one that is cut in two, wherever, is hidden in both pieces."""

    def __init__(self) -> None:
        self._tail = ""

    def __call__(self, data: bytes) -> bytes:
        """The next piece without them; nothing is held back."""
        redactor = SECRETS_IN_USE.redactor()
        if redactor is None:
            self._tail = ""
            return data
        whole_lines = data.endswith(b"\n")
        if whole_lines and not self._tail:
            return redactor.redact_bytes(data)
        redactor.tail = self._tail
        text = redactor.redact_next(data.decode(errors="surrogateescape"))
        self._tail = "" if whole_lines else redactor.tail
        return text.encode(errors="surrogateescape")


class RedactingLogRecordFactory:
    """Makes log records without the secrets of the running call and those in use: in message and traceback.

    A filter would hold for one logger only; here, also the HTTP client that a tool uses is heard by us first.
    """

    def __init__(self, factory: Callable[..., logging.LogRecord]) -> None:
        self._factory = factory

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """The record, with as little in it as may be told."""
        record = self._factory(*args, **kwargs)
        for redactor in (_call_redactor.get(), SECRETS_IN_USE.redactor()):
            if redactor is not None:
                _redact_record(record, redactor)
        return record


def _redact_record(record: logging.LogRecord, redactor: Redactor) -> None:
    record.msg, record.args = redactor.redact_text(_format_message(record)), None
    if record.exc_info and record.exc_info[0] is not None:
        # Never with local variables: they hold what no text shows.
        record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        record.exc_info = None
    if record.exc_text:
        record.exc_text = redactor.redact_text(record.exc_text)
    if record.stack_info:
        record.stack_info = redactor.redact_text(record.stack_info)


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the logging module would print the arguments instead
        return f"a message of {record.name} could not be written"


class RedactingExceptionHooks:
    """The interpreter's hooks for what nobody catches: with a secret in it the text is printed without, else as before.

    The handler of an event loop needs none: what it is told it logs.
    """

    def __init__(self) -> None:
        self._original_excepthook = sys.excepthook
        self._original_thread_hook = threading.excepthook
        self._original_unraisable_hook = sys.unraisablehook
        self._original_showwarning = warnings.showwarning

    def install(self) -> None:
        """From now on; what somebody else installs later wins."""
        sys.excepthook = self.on_exception
        threading.excepthook = self.on_thread_exception
        sys.unraisablehook = self.on_unraisable
        warnings.showwarning = self.on_warning

    def on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """What ends the program."""
        if not _print_redacted("", error, trace):
            self._original_excepthook(kind, error, trace)

    def on_thread_exception(self, args: threading.ExceptHookArgs) -> None:
        """What ends a thread."""
        name = args.thread.name if args.thread else threading.get_ident()
        if not _print_redacted(f"Exception in thread {name}:\n", args.exc_value, args.exc_traceback):
            self._original_thread_hook(args)

    def on_unraisable(self, args: "sys.UnraisableHookArgs") -> None:
        """What a finalizer raises."""
        what = f"{args.err_msg or 'Exception ignored in'}: {_safe_repr(args.object)}\n"
        if not _print_redacted(what, args.exc_value, args.exc_traceback):
            self._original_unraisable_hook(args)

    def on_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """A warning."""
        if not _print_redacted(warnings.formatwarning(message, category, filename, lineno, line), None, None, file):
            self._original_showwarning(message, category, filename, lineno, file, line)


def _print_redacted(
    text: str, error: BaseException | None, trace: TracebackType | None, file: TextIO | None = None
) -> bool:
    """Print it without the secrets in use; False, and nothing is printed, if there are none in it."""
    redactor = SECRETS_IN_USE.redactor()
    if redactor is None:
        return False
    if error is not None:
        text += "".join(traceback.format_exception(type(error), error, trace))
    hidden = redactor.redact_text(text)
    if hidden == text:
        return False
    stream = file or sys.stderr
    if stream is not None:
        stream.write(hidden)
        stream.flush()
    return True


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object that is half gone
        return f"<a {type(value).__name__}>"


def install_log_redaction() -> None:
    """From now on, in this process; a second time does nothing more."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, RedactingLogRecordFactory):
        logging.setLogRecordFactory(RedactingLogRecordFactory(make))
        RedactingExceptionHooks().install()
