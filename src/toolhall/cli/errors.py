"""CommandError, UsageError and exit codes, and `run_command`, which turns exceptions into one line and an exit code."""

import os
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from toolhall.cli.output import RED, note, styled, visible
from toolhall.model.errors import LifespanFailed

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONFIG = 78  # sysexits.h, EX_CONFIG: it must not be started like this


class CommandError(Exception):
    """The command was refused or failed; the message is the one line that is printed."""

    outcome = "failed"  # as the log of calls puts it

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        self.message = message
        self.code = code
        super().__init__(message)


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, EXIT_USAGE)


class CallTimeout(CommandError):
    """The call was not answered in time."""

    outcome = "timed_out"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds; allow more with --timeout")


_EXIT_INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT


def run_command(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; the process can end then, whatever still runs in it."""
    _escape_unencodable(sys.stdout, sys.stderr)
    before = threading.enumerate()
    code = _exit_code_of(command)
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread not in before):
        os._exit(code)  # a tool that hangs in a thread cannot be stopped, and must not hold up the end
    return code


def _exit_code_of(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
    except CommandError as failed:
        line = " ".join(failed.message.split())
        note(f"{styled('toolhall:', RED, sys.stderr)} {line}")
        return failed.code
    except LifespanFailed as failed:
        note(f"{styled('toolhall:', RED, sys.stderr)} {visible(' '.join(str(failed).split()))}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough; Python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    return code


def _escape_unencodable(*streams: TextIO) -> None:
    for stream in streams:
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
