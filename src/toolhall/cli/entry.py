"""Entry point of the `toolhall` program: `main`, ServeOptions, and `parse_serve_fast` for plain `serve` command lines.

The fast parser exists for start-up time: importing cyclopts takes longer than starting a server. Its table comes from
the fields of ServeOptions. Whatever it cannot read, errors included, is left to cyclopts (`cli/app.py`).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from toolhall.cli.errors import run_command

_COMMAND = "serve"


@dataclass(frozen=True)
class ServeOptions:
    """Options of `toolhall serve`.

    Parameters
    ----------
    host
        Where to listen; this machine only. [default: 127.0.0.1]
    port
        0 picks a free one. [default: 8000, with --join 0]
    data
        Folder of records and keys. [default: one per project, shown at the start]
    config
        Settings file. [default: toolhall.toml, if there is one]
    profile
        Who may call. [default: local]
    stdio
        Serve one dialect on standard input and output.
    dialect
        Which one, with --stdio. [default: mcp]
    reload
        Start again when a file changes.
    workers
        Processes that share the port.
    join
        Run the tools for the hall at this URL, as its tool server, such as --join http://127.0.0.1:8000.
    name
        What this tool server is called, with --join. [default: its first toolkit]
    key_file
        File that holds the key for the hall, with --join. [default: the variable TOOLHALL_KEY]
    socket
        With --join: be called over a socket to the hall, and listen on no port.
    advertise
        With --join: the URL at which the hall reaches this server. [default: http://HOST:PORT]
    json
        Print one JSON line with the url and the pid, and with --join the hall.
    """

    host: str | None = None
    port: int | None = None
    data: Path | None = None
    config: Path | None = None
    profile: Literal["local", "server"] | None = None
    stdio: bool = False
    dialect: Literal["mcp", "machine", "hub"] | None = None
    reload: bool = False
    workers: int = 1
    join: str | None = None
    name: str | None = None
    key_file: Path | None = None
    socket: bool = False
    advertise: str | None = None
    json: bool = False


def main() -> int:
    """Run the command of this process's command line and return its exit code."""
    return run_command(lambda: _run_command_line(sys.argv[1:]))


def _run_command_line(words: Sequence[str]) -> int:
    if words == ["--version"]:
        print(version_text())
        return 0
    parsed = parse_serve_fast(words)
    if parsed is not None:
        from toolhall.cli.serve import run_serve  # lazy: the settings, for serving only

        return run_serve(*parsed)
    from toolhall.cli.app import run_app  # lazy: cyclopts

    return run_app(words)


def version_text() -> str:
    """What `toolhall --version` prints."""
    return f"toolhall {version('toolhall')}"


class NeedsFullParser(Exception):
    """The fast parser cannot read this command line."""


def parse_serve_fast(words: Sequence[str]) -> tuple[tuple[str, ...], ServeOptions] | None:
    """The targets and options of a plain `serve` command line; None for every other."""
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


def _integer(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise NeedsFullParser
    return int(text)


def _converter(annotation: Any) -> Callable[[str], Any]:
    """How the text of an option becomes a value of its type, which is `X` or `X | None`."""
    alternatives = [each for each in get_args(annotation) if each is not NoneType]
    kind = alternatives[0] if alternatives else annotation
    if get_origin(kind) is Literal:
        return _one_of(*get_args(kind))
    converters: dict[Any, Callable[[str], Any]] = {str: str, int: _integer, Path: Path}
    return converters[kind]


def _one_of(*choices: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in choices:
            raise NeedsFullParser
        return text

    return convert


FLAG_OPTIONS = tuple(each.name for each in fields(ServeOptions) if each.type is bool)
VALUE_OPTIONS = {each.name: _converter(each.type) for each in fields(ServeOptions) if each.type is not bool}
