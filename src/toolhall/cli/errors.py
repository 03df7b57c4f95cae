"""CommandError, UsageError and exit codes, and `run_command`, which turns exceptions into one line and an exit code."""

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from toolhall.cli.output import RED, note, styled, visible

if TYPE_CHECKING:
    from toolhall.model.errors import LifespanFailed

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONFIG = 78  # sysexits.h, EX_CONFIG: the settings do not allow this
_EXIT_INTERRUPTED = 130  # as shells count: 128 plus the number of SIGINT


class CommandError(Exception):
    """The command failed; the message is the one line that is printed, `code` the exit code."""

    outcome = "failed"  # in the call log

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        self.message = message
        self.code = code
        super().__init__(message)


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, EXIT_USAGE)


class CallTimeout(CommandError):
    """The call was not answered within --timeout."""

    outcome = "timed_out"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds; allow more with --timeout")


def run_command(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; errors become one line on stderr.

    If non-daemon threads are left, the process exits here: a tool that hangs in a thread must not delay its end.
    """
    _escape_unencodable(sys.stdout, sys.stderr)
    before = threading.enumerate()
    code = _exit_code_of(command)
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread not in before):
        os._exit(code)
    return code


def _exit_code_of(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
    except CommandError as failed:
        line = " ".join(failed.message.split())
        note(f"{styled('toolhall:', RED, sys.stderr)} {line}")
        return failed.code
    except _lifespan_failed() as failed:
        note(f"{styled('toolhall:', RED, sys.stderr)} {visible(' '.join(str(failed).split()))}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # stdout was closed by its reader; without this Python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    return code


def _lifespan_failed() -> "type[LifespanFailed]":
    """The error, imported only if a command raises anything: an `except` clause is evaluated when it is reached."""
    from toolhall.model.errors import LifespanFailed  # lazy: msgspec

    return LifespanFailed


def _escape_unencodable(*streams: TextIO) -> None:
    for stream in streams:
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
