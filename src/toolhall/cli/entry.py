"""Where the program starts: straight to the server for a plain `serve`, through the parser for everything else."""

import importlib
import sys
from collections.abc import Callable, Sequence

from toolhall.cli.ending import ended
from toolhall.cli.serving.quick import read_serve
from toolhall.cli.serving.start import start


def main() -> int:
    """The program `toolhall`: run the command of this process's own command line and return the exit code."""
    return ended(lambda: _run(sys.argv[1:]))


def _run(words: Sequence[str]) -> int:
    plain = read_serve(words)
    if plain is not None:
        return start(*plain)
    # The parser takes longer to import than a server to start, so only those wait for it who need it.
    run: Callable[[Sequence[str]], int] = importlib.import_module("toolhall.cli.program").run
    return run(words)
