"""The fast parser: reads plain `serve`, `list` and `call` command lines without cyclopts, and runs them.

It exists for start-up time: importing cyclopts takes longer than listing the tools of a file. Its tables come from the
fields of the options' dataclasses. Whatever it cannot read, errors and short names included, is left to cyclopts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from toolhall.cli.options import CallOptions, ListToolsOptions, ServeOptions

Options: TypeAlias = ServeOptions | ListToolsOptions | CallOptions
_INTEGER = re.compile("[0-9]+")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


class FastCommand(NamedTuple):
    """A command that the fast parser knows: the class of its options, and how many other words it takes."""

    options: type[Options]
    min_words: int = 0
    max_words: int | None = None


COMMANDS = {
    "serve": FastCommand(ServeOptions),
    "list": FastCommand(ListToolsOptions, max_words=1),
    "call": FastCommand(CallOptions, min_words=1),
}


def run_fast(words: Sequence[str]) -> int | None:
    """Run a plain command line and return its exit code; None leaves it to the full parser."""
    match parse_fast(words):
        case targets, ServeOptions() as options:
            from toolhall.cli.serve import run_serve  # lazy: the server

            return run_serve(targets, options)
        case others, ListToolsOptions() as options:
            from toolhall.cli.commands.list import run_list  # lazy: the settings

            run_list(others[0] if others else None, options)
            return 0
        case (tool, *others), CallOptions() as options:
            from toolhall.cli.commands.call import run_call  # lazy: the settings

            return run_call(tool, tuple(others), options)
        case _:
            return None


class NeedsFullParser(Exception):
    """The fast parser cannot read this command line."""


def parse_fast(words: Sequence[str]) -> tuple[tuple[str, ...], Options] | None:
    """The words and options of a plain command line; None for every other."""
    command = COMMANDS.get(words[0]) if words else None
    if command is None:
        return None
    try:
        others, options = _parse(iter(words[1:]), command.options)
    except NeedsFullParser:
        return None
    fits = command.min_words <= len(others) and (command.max_words is None or len(others) <= command.max_words)
    return (others, options) if fits else None


def _parse(words: Iterator[str], kind: type[Options]) -> tuple[tuple[str, ...], Options]:
    others: list[str] = []
    given: dict[str, Any] = {}
    flags, converters = flag_options(kind), value_options(kind)
    for word in words:
        if not word.startswith("-"):
            others.append(word)
            continue
        dashed, equals, value = word.partition("=")
        name = dashed.removeprefix("--").replace("-", "_")
        if f"--{name.replace('_', '-')}" != dashed or name in given:
            raise NeedsFullParser
        if name in flags and not equals:
            given[name] = True
        elif name in converters:
            given[name] = converters[name](_option_value(value if equals else next(words, "")))
        else:
            raise NeedsFullParser
    return tuple(others), kind(**given)


def _option_value(value: str) -> str:
    if not value or value.startswith("-"):
        raise NeedsFullParser
    return value


def flag_options(kind: type[Options]) -> tuple[str, ...]:
    """The options that take no value."""
    return tuple(each.name for each in fields(kind) if each.type is bool)


def value_options(kind: type[Options]) -> dict[str, Callable[[str], Any]]:
    """The options that take a value, and how its text becomes one."""
    return {each.name: _converter(each) for each in fields(kind) if each.type is not bool}


def _converter(field: "Field[Any]") -> Callable[[str], Any]:
    """How the text of an option becomes a value of its type, which is `X` or `X | None`."""
    alternatives = [each for each in get_args(field.type) if each is not NoneType]
    kind = alternatives[0] if alternatives else field.type
    if get_origin(kind) is Literal:
        return _one_of(*get_args(kind))
    converters: dict[Any, Callable[[str], Any]] = {str: str, int: _integer, float: _number, Path: Path}
    return converters[kind]


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise NeedsFullParser
    return int(text)


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise NeedsFullParser
    return float(text)


def _one_of(*choices: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in choices:
            raise NeedsFullParser
        return text

    return convert
