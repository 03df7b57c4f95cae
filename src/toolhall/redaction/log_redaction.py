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

RECENT_SECONDS = 300.0  # an abandoned task is reported when it is garbage-collected
MAX_RECENT = 32  # each one is searched in every log line
_call_redactor: ContextVar[Redactor | None] = ContextVar("toolhall_redactor", default=None)


class SecretsInUse:
    """The secrets that tools of this process use now, and those used within RECENT_SECONDS.

    Only calls take the lock. Logging does not, because a finalizer may log anywhere, also while the lock is held.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: dict[Secret, int] = {}
        self._recent: dict[Secret, float] = {}  # expiry by secret, oldest first; replaced, never changed

    def acquire(self, secrets: tuple[Secret, ...]) -> None:
        """Register the secrets that a call was given."""
        with self._lock:
            for secret in secrets:
                self._calls[secret] = self._calls.get(secret, 0) + 1

    def release(self, secrets: tuple[Secret, ...]) -> None:
        """Unregister a call's secrets; each becomes a recent one before it is no longer in use."""
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
        """Return a redactor of all secrets in use or recently used; None without any."""
        calls = list(self._calls)  # read before _recent, into which they move
        recent = self._recent
        if not calls and not recent:
            return None
        now = self._clock()
        secrets = dict.fromkeys([*calls, *(secret for secret, until in recent.items() if until > now)])
        return Redactor(tuple(secrets)) if secrets else None


SECRETS_IN_USE = SecretsInUse()


def start_redaction(redactor: Redactor | None) -> "Token[Redactor | None]":
    """Redact what this task and its threads log, until `stop_redaction`."""
    if redactor is not None and redactor.tool_secrets:
        SECRETS_IN_USE.acquire(redactor.tool_secrets)
    return _call_redactor.set(redactor)


def stop_redaction(token: "Token[Redactor | None]") -> None:
    """End what `start_redaction` began, in the same task."""
    redactor = _call_redactor.get()
    _call_redactor.reset(token)
    if redactor is not None and redactor.tool_secrets:
        SECRETS_IN_USE.release(redactor.tool_secrets)


class StreamRedactor:
    """Redacts secrets in use in a stream of bytes; a secret that is split between pieces is replaced in both."""

    def __init__(self) -> None:
        self._tail = ""

    def __call__(self, data: bytes) -> bytes:
        """Return the next piece without secrets; nothing is held back."""
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
    """Makes log records without secrets of the running call and secrets in use, in message and traceback.

    A filter would apply to one logger only; the factory covers all, also that of an HTTP client that a tool uses.
    """

    def __init__(self, factory: Callable[..., logging.LogRecord]) -> None:
        self._factory = factory

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """Make a record and redact it."""
        record = self._factory(*args, **kwargs)
        for redactor in (_call_redactor.get(), SECRETS_IN_USE.redactor()):
            if redactor is not None:
                _redact_record(record, redactor)
        return record


def _redact_record(record: logging.LogRecord, redactor: Redactor) -> None:
    record.msg, record.args = redactor.redact_text(_format_message(record)), None
    if record.exc_info and record.exc_info[0] is not None:
        # Without local variables, which contain more than any text.
        record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        record.exc_info = None
    if record.exc_text:
        record.exc_text = redactor.redact_text(record.exc_text)
    if record.stack_info:
        record.stack_info = redactor.redact_text(record.stack_info)


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - logging would print the arguments instead
        return f"a log message of {record.name} could not be formatted"


class RedactingExceptionHooks:
    """Hooks for uncaught exceptions and warnings, which print texts with a secret redacted, others as before.

    Event loops need no hook, because their exception handler logs.
    """

    def __init__(self) -> None:
        self._original_excepthook = sys.excepthook
        self._original_thread_hook = threading.excepthook
        self._original_unraisable_hook = sys.unraisablehook
        self._original_showwarning = warnings.showwarning

    def install(self) -> None:
        """Install the hooks; hooks installed later take precedence."""
        sys.excepthook = self.on_exception
        threading.excepthook = self.on_thread_exception
        sys.unraisablehook = self.on_unraisable
        warnings.showwarning = self.on_warning

    def on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Replacement of sys.excepthook."""
        if not _print_redacted("", error, trace):
            self._original_excepthook(kind, error, trace)

    def on_thread_exception(self, args: threading.ExceptHookArgs) -> None:
        """Replacement of threading.excepthook."""
        name = args.thread.name if args.thread else threading.get_ident()
        if not _print_redacted(f"Exception in thread {name}:\n", args.exc_value, args.exc_traceback):
            self._original_thread_hook(args)

    def on_unraisable(self, args: "sys.UnraisableHookArgs") -> None:
        """Replacement of sys.unraisablehook."""
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
        """Replacement of warnings.showwarning."""
        if not _print_redacted(warnings.formatwarning(message, category, filename, lineno, line), None, None, file):
            self._original_showwarning(message, category, filename, lineno, file, line)


def _print_redacted(
    text: str, error: BaseException | None, trace: TracebackType | None, file: TextIO | None = None
) -> bool:
    """Print the text without secrets in use; print nothing and return False if it contains none."""
    redactor = SECRETS_IN_USE.redactor()
    if redactor is None:
        return False
    if error is not None:
        text += "".join(traceback.format_exception(type(error), error, trace))
    redacted = redactor.redact_text(text)
    if redacted == text:
        return False
    stream = file or sys.stderr
    if stream is not None:
        stream.write(redacted)
        stream.flush()
    return True


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the object may be partly finalized
        return f"<a {type(value).__name__}>"


def install_log_redaction() -> None:
    """Install the log record factory and the exception hooks in this process, once."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, RedactingLogRecordFactory):
        logging.setLogRecordFactory(RedactingLogRecordFactory(make))
        RedactingExceptionHooks().install()
