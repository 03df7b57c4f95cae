"""Entry point of the `toolhall` program: `main`, with a fast parser for plain `serve` command lines.

The fast parser exists for start-up time; whatever it cannot read, errors included, is left to cyclopts (`cli/app.py`).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from toolhall.cli.errors import run_command
from toolhall.cli.serve import ServeOptions, run_serve

_COMMAND = "serve"


class NeedsFullParser(Exception):
    """Something that only the parser can judge."""


def _integer(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise NeedsFullParser
    return int(text)


def _one_of(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise NeedsFullParser
        return text

    return read


VALUE_OPTIONS: dict[str, Callable[[str], Any]] = {
    "host": str,
    "port": _integer,
    "data": Path,
    "config": Path,
    "profile": _one_of("local", "server"),
    "dialect": _one_of("mcp", "machine", "hub"),
    "workers": _integer,
    "join": str,
    "name": str,
    "key_file": Path,
    "advertise": str,
}
FLAG_OPTIONS = ("stdio", "reload", "socket", "json")


def parse_serve_fast(words: Sequence[str]) -> tuple[tuple[str, ...], ServeOptions] | None:
    """The targets and options of a plain `serve`; None for every other command line."""
    if not words or words[0] != _COMMAND:
        return None
    try:
        return _parse(iter(words[1:]))
    except NeedsFullParser:
        return None


def _parse(words: Iterator[str]) -> tuple[tuple[str, ...], ServeOptions]:
    targets: list[str] = []
    given: dict[str, Any] = {}
    for word in words:
        if not word.startswith("-"):
            targets.append(word)
            continue
        dashed, equals, value = word.partition("=")
        name = dashed.removeprefix("--").replace("-", "_")
        if f"--{name.replace('_', '-')}" != dashed or name in given:
            raise NeedsFullParser
        if name in FLAG_OPTIONS and not equals:
            given[name] = True
        elif name in VALUE_OPTIONS:
            given[name] = VALUE_OPTIONS[name](_option_value(value if equals else next(words, "")))
        else:
            raise NeedsFullParser
    return tuple(targets), ServeOptions(**given)


def _option_value(value: str) -> str:
    if not value or value.startswith("-"):
        raise NeedsFullParser
    return value


def main() -> int:
    """The program `toolhall`: run the command of this process's own command line and return the exit code."""
    return run_command(lambda: _run_command_line(sys.argv[1:]))


def _run_command_line(words: Sequence[str]) -> int:
    plain = parse_serve_fast(words)
    if plain is not None:
        return run_serve(*plain)
    from toolhall.cli.app import run_app  # lazy: cyclopts takes longer to import than a server to start

    return run_app(words)
