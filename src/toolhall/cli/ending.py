"""How every command ends: with an exit code, and one line on the error output where something went wrong."""

import os
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from toolhall.cli.failure import EXIT_FAILED, CommandFailed
from toolhall.cli.screen import RED, note, styled, visible
from toolhall.model.errors import LifespanFailed

_EXIT_INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT


def ended(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; the process can end then, whatever still runs in it."""
    _never_fail_to_print(sys.stdout, sys.stderr)
    code = _guarded(command)
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)  # a tool that hangs in a thread cannot be stopped, and must not hold up the end
    return code


def _guarded(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
    except CommandFailed as failed:
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


def _never_fail_to_print(*streams: TextIO) -> None:
    for stream in streams:
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
