"""Keeps the secrets of a running call out of the log, whoever writes to it while the call runs."""

import logging
import traceback
from collections.abc import Callable
from contextvars import ContextVar

from toolhall.runners.redactor import Redactor

_running: ContextVar[Redactor | None] = ContextVar("toolhall_redactor", default=None)


# What this task and its threads log in between is told without the secrets that the redactor knows.
hush = _running.set
unhush = _running.reset


class Discreet:
    """Makes records without the secrets of the running call: in the message, and in the traceback with it.

    A filter would hold for one logger only; here, also the HTTP client that a tool uses is heard by us first.
    """

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """The record, with as little in it as may be told."""
        record = self._make(*args, **kwargs)
        redactor = _running.get()
        if redactor is not None:
            record.msg, record.args = redactor.text(_message(record)), None
            if record.exc_info and record.exc_info[0] is not None:
                # Never with local variables: they hold what no text shows.
                record.exc_text = redactor.text("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
                record.exc_info = None
        return record


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the logging module would print the arguments instead
        return f"a message of {record.name} could not be written"


def keep_discreet() -> None:
    """From now on; a second time does nothing more."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, Discreet):
        logging.setLogRecordFactory(Discreet(make))
