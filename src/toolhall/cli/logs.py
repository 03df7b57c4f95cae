"""The log of a command: lines on the error output, plain for a person, JSON for a collector."""

import logging
import os
import sys
import time

import msgspec

from toolhall.cli.failure import WrongUsage

LEVEL_VARIABLE = "TOOLHALL_LOG_LEVEL"
_LEVELS = ("debug", "info", "warning", "error", "critical")


def start_logging(default: str | None) -> None:
    """Write the log of the hall and of the HTTP server to the error output; without a level, nothing is logged."""
    level = os.environ.get(LEVEL_VARIABLE, "").lower() or default
    if level is None:
        logging.getLogger("toolhall").addHandler(logging.NullHandler())
        return
    if level not in _LEVELS:
        raise WrongUsage(f"{LEVEL_VARIABLE} is {level!r}; set it to one of {', '.join(_LEVELS)}")
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_PlainLines() if sys.stderr.isatty() else _JsonLines())
    for name in ("toolhall", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.addHandler(lines)
        logger.propagate = False


class _PlainLines(logging.Formatter):
    """For a person at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")


class _JsonLines(logging.Formatter):
    """For a collector: one JSON object a line, whatever the message holds."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()
