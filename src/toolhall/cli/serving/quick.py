"""Reads a plain `toolhall serve ...` without the parser; whatever is not plain is left to the parser, errors too."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from toolhall.cli.serving.plan import ServeOptions

_COMMAND = "serve"


class _NotPlain(Exception):
    """Something that only the parser can judge."""


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _NotPlain
    return int(text)


def _one_of(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise _NotPlain
        return text

    return read


VALUES: dict[str, Callable[[str], Any]] = {
    "host": str,
    "port": _whole,
    "data": Path,
    "config": Path,
    "profile": _one_of("local", "server"),
    "dialect": _one_of("mcp", "machine", "hub"),
    "workers": _whole,
    "join": str,
    "name": str,
    "key_file": Path,
    "advertise": str,
}
FLAGS = ("stdio", "reload", "socket", "json")


def read_serve(words: Sequence[str]) -> tuple[tuple[str, ...], ServeOptions] | None:
    """The targets and options of a plain `serve`; None for every other command line."""
    if not words or words[0] != _COMMAND:
        return None
    try:
        return _read(iter(words[1:]))
    except _NotPlain:
        return None


def _read(words: Iterator[str]) -> tuple[tuple[str, ...], ServeOptions]:
    targets: list[str] = []
    given: dict[str, Any] = {}
    for word in words:
        if not word.startswith("-"):
            targets.append(word)
            continue
        dashed, equals, value = word.partition("=")
        name = dashed.removeprefix("--").replace("-", "_")
        if f"--{name.replace('_', '-')}" != dashed or name in given:
            raise _NotPlain
        if name in FLAGS and not equals:
            given[name] = True
        elif name in VALUES:
            given[name] = VALUES[name](_plain(value if equals else next(words, "")))
        else:
            raise _NotPlain
    return tuple(targets), ServeOptions(**given)


def _plain(value: str) -> str:
    if not value or value.startswith("-"):
        raise _NotPlain
    return value
