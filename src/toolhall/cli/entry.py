"""Entry point of the `toolhall` program: `main`.

It imports as little as it can: `--version` needs no parser, the program's help page (`cli/help_page.py`) and plain
`serve`, `list` and `call` command lines (`cli/fast_parser.py`) need no cyclopts, which takes longer to import than
a server to start. Whatever these leave alone, errors included, is cyclopts' (`cli/app.py`).
"""

import atexit
import gc
import sys
from collections.abc import Sequence

from toolhall import __version__
from toolhall.cli.errors import run_command

# A command that imports and prints makes fewer objects and hardly any garbage: with Python's threshold of 700 the
# collector would traverse them again and again. What serves sets a threshold of its own once it has started.
_GC_THRESHOLD = 100_000


def main() -> int:
    """Run the command of this process's command line and return its exit code."""
    gc.set_threshold(_GC_THRESHOLD)
    atexit.register(gc.freeze)  # the interpreter's last collections would traverse all that is left, for nothing
    return run_command(lambda: _run_command_line(sys.argv[1:]))


def _run_command_line(words: Sequence[str]) -> int:
    match words:
        case ["--version"]:
            print(version_text())
            return 0
        case [] | ["--help"] | ["-h"]:
            from toolhall.cli.help_page import print_help_page  # lazy: the table of commands

            if print_help_page():
                return 0
        case ["serve" | "list" | "call", *_]:
            from toolhall.cli.fast_parser import run_fast  # lazy: dataclasses

            code = run_fast(words)
            if code is not None:
                return code
        case _:
            pass
    from toolhall.cli.app import run_app  # lazy: cyclopts

    return run_app(words)


def version_text() -> str:
    """What `toolhall --version` prints."""
    return f"toolhall {__version__}"
