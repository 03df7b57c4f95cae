"""The program `toolhall`: its commands in groups, each imported when it is used, and how every one of them ends."""

import os
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version
from typing import TextIO, cast

from cyclopts import App, Group
from cyclopts.exceptions import CycloptsError

from toolhall.cli.failure import EXIT_FAILED, EXIT_USAGE, CommandFailed
from toolhall.cli.screen import RED, note, styled

_EXIT_INTERRUPTED = 130  # as shells count: 128 and the number of SIGINT


def _version() -> str:
    return f"toolhall {version('toolhall')}"


app = App(
    name="toolhall",
    help="One hall for every agent's tools: write a tool once, serve it in every dialect.",
    help_epilogue="Every command takes --json and --help. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.",
    help_format="plaintext",
    version=_version,
    suppress_keyboard_interrupt=False,
)
_SERVE = Group("Serve tools", help="Example: toolhall serve my_tools.py --reload", sort_key=1)
_LOOK = Group("Look at tools", help="Example: toolhall inspect my_tools.py get_weather", sort_key=2)
_CALL = Group("Call tools", help="Example: toolhall call get_weather location=Oslo", sort_key=3)
_MAKE = Group("Make tools", help="Example: toolhall new my_tools", sort_key=4)
app["--help"].group = app["--version"].group = Group("Options", sort_key=9)

app.command("toolhall.cli.serve:serve", name="serve", group=_SERVE, help="Serve tools over HTTP or stdio.")
app.command("toolhall.cli.listing:list_tools", name="list", group=_LOOK, help="List tools.")
app.command("toolhall.cli.inspection:inspect", name="inspect", group=_LOOK, help="Show everything about tools.")
app.command("toolhall.cli.call:call", name="call", group=_CALL, help="Call one tool, in process or over MCP.")
app.command("toolhall.cli.new:new", name="new", group=_MAKE, help="Start a toolkit with one tool and one test.")


def main() -> int:
    """The program: run the command of this process's own command line, then end, whatever still runs."""
    code = run(sys.argv[1:])
    sys.stderr.flush()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)  # a tool that hangs in a thread cannot be stopped, and must not hold up the end
    return code


def run(words: Sequence[str]) -> int:
    """Run one command and return the exit code; what goes wrong is one line on the error output."""
    _never_fail_to_print(sys.stdout, sys.stderr)
    try:
        code = app(
            list(words),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CommandFailed as failed:
        return _complain(failed.message, failed.code)
    except CycloptsError as error:
        return _complain(f"{error}; see 'toolhall {_command(error)}--help'", EXIT_USAGE)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough; Python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _never_fail_to_print(*streams: TextIO) -> None:
    for stream in streams:
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    note(f"{styled('toolhall:', RED, sys.stderr)} {line}")
    return code


def _command(error: CycloptsError) -> str:
    chain = cast("Sequence[str]", error.command_chain or ())
    return "".join(f"{word} " for word in chain)
