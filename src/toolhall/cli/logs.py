"""Configures logging of a command: text for terminals, JSON lines for collectors, both on stderr."""

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Generator
from typing import Literal, TextIO, TypeAlias

import msgspec

from toolhall.cli.errors import UsageError
from toolhall.cli.output import visible

LEVEL_VARIABLE = "TOOLHALL_LOG_LEVEL"
ACCESS_LOGGER = "toolhall.access"
LogFormat: TypeAlias = Literal["auto", "text", "json"]
_LEVELS = ("debug", "info", "warning", "error", "critical")
_LOGGERS = ("toolhall",)
_LINE_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029]")  # legal in JSON, but some readers take them for line breaks
MAX_MESSAGE = 8_192
MAX_TRACEBACK = 64 * 1024
# URLs in messages may hold secrets: `https://user:password@host/path?token=...`.
_URL = r"(?i)\b([a-z][a-z0-9+.-]{1,15}://)(?:[^\s/?#\"'<>]{1,256}@)?([^\s?#\"'<>]{0,2048})(?:[?#][^\s\"'<>]*)?"


def start_logging(default: str | None) -> None:
    """Log the hall and the HTTP server to stderr at this level; None logs nothing unless TOOLHALL_LOG_LEVEL is set.

    `apply_log_settings` replaces level and format once the settings are read.
    """
    level = os.environ.get(LEVEL_VARIABLE, "").lower() or default
    if level is None:
        logging.getLogger("toolhall").addHandler(logging.NullHandler())
        return
    if level not in _LEVELS:
        raise UsageError(f"{LEVEL_VARIABLE} is {level!r}; set it to one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter("auto"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.addHandler(handler)
        logger.propagate = False


def apply_log_settings(level: str, form: LogFormat, *, access: bool) -> None:
    """Set level and format of the log; the access log depends on `access` alone, not on the level."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setFormatter(_formatter(form))
    logging.getLogger(ACCESS_LOGGER).setLevel("INFO" if access else "CRITICAL")


def _formatter(form: LogFormat) -> logging.Formatter:
    plain = sys.stderr.isatty() if form == "auto" else form == "text"
    return _TextFormatter() if plain else _JsonFormatter()


@contextlib.contextmanager
def print_crashes() -> Generator[list[logging.LogRecord], None, None]:
    """Context in which tracebacks of crashed tools are printed to stderr; yields the records that were printed.

    If TOOLHALL_LOG_LEVEL is set, the log shows them and none is printed here.
    """
    handler = _CrashHandler(sys.stderr)
    handler.setFormatter(_TracebackFormatter())
    logger = logging.getLogger("toolhall.run")
    if not os.environ.get(LEVEL_VARIABLE):
        logger.addHandler(handler)
    try:
        yield handler.shown
    finally:
        logger.removeHandler(handler)


class _LineFormatter(logging.Formatter):
    """Formats a record so that its text can neither forge further lines nor grow without bound."""

    def message(self, record: logging.LogRecord) -> str:
        """The message, without user, password and query of URLs in it."""
        return _sanitized(record.getMessage(), MAX_MESSAGE)

    def error(self, record: logging.LogRecord) -> str | None:
        """The traceback, if there is one."""
        if record.exc_info:
            return _sanitized(self.formatException(record.exc_info), MAX_TRACEBACK)
        return _sanitized(record.exc_text, MAX_TRACEBACK) if record.exc_text else None


class _CrashHandler(logging.StreamHandler[TextIO]):
    """Prints records with a traceback, and remembers them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.shown: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record that has a traceback."""
        if record.exc_info or record.exc_text:
            self.shown.append(record)
            super().emit(record)


class _TracebackFormatter(_LineFormatter):
    """Formats the traceback of a record alone."""

    def format(self, record: logging.LogRecord) -> str:
        """The traceback with invisible characters made visible."""
        return "\n".join(map(visible, (self.error(record) or "").splitlines()))


class _TextFormatter(_LineFormatter):
    """Text for terminals; traceback lines are indented, so that none looks like a record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, its traceback indented below."""
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{stamp} {record.levelname} {record.name}: {visible(self.message(record))}"
        error = self.error(record)
        return "\n    ".join([line, *map(visible, error.splitlines())]) if error else line


class _JsonFormatter(_LineFormatter):
    """JSON lines for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
        }
        error = self.error(record)
        return _LINE_BREAKS.sub(_escape, msgspec.json.encode(line | ({"error": error} if error else {})).decode())


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _sanitized(text: str, limit: int) -> str:
    if len(text) > limit:
        text = f"{text[: limit // 2]} [{len(text) - limit} letters left out] {text[-limit // 2 :]}"
    bare = re.sub(_URL, r"\1\2", text) if "://" in text else text
    return bare.encode(errors="replace").decode()  # file names may hold surrogates
