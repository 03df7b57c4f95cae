"""Terminal output: results on stdout, messages for people on stderr, invisible characters made visible."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TextIO

import msgspec

from toolhall.model.json import Json

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
# Control, format (bidirectional, zero width, tags), private and unassigned characters are found by what they are not:
# printable. These print as nothing or as a blank all the same.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def print_json(value: Json) -> None:
    """One JSON document on a line of its own, as bytes, whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def note(line: str = "") -> None:
    """A line for the person, beside the result."""
    print(line, file=sys.stderr, flush=True)


def visible(text: str, keep: str = "") -> str:
    """Text in which nothing hides: control and invisible characters are written as <U+XXXX>, except those to keep."""
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(letter if _is_visible(letter) or letter in keep else f"<U+{ord(letter):04X}>" for letter in text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() and not _BLANK.match(letter)


def visible_json(value: Json) -> str:
    """A value as one line of JSON in which nothing hides."""
    return msgspec.json.encode(_visible_parts(value)).decode()


def pretty_json(value: Json) -> str:
    """A value as JSON over several lines, with nothing hidden in it."""
    return visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), keep="\n")


def _visible_parts(value: Json) -> Json:
    match value:
        case str():
            return visible(value)
        case dict():
            return {visible(key): _visible_parts(part) for key, part in value.items()}
        case list():
            return [_visible_parts(part) for part in value]
        case _:
            return value


def styled(text: str, style: str, stream: TextIO) -> str:
    """The text in a colour or weight, where the stream is a terminal that wants it."""
    return f"\x1b[{style}m{text}\x1b[0m" if has_colour(stream) else text


def has_colour(stream: TextIO) -> bool:
    """Colour is for terminals, and NO_COLOR (no-color.org) switches it off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_interactive() -> bool:
    """Whether somebody can read a question and type an answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def stdout_to_stderr() -> Generator[Callable[[], AbstractContextManager[None]], None, None]:
    """Meanwhile whatever other code prints goes to the error output, so that ours is alone on the standard output.

    Yields a context manager in which we print to the standard output after all.
    """
    stdout = sys.stdout
    stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # which shows a line at once, and is redacted in a server

    @contextlib.contextmanager
    def ours() -> Generator[None, None, None]:
        aside, sys.stdout = sys.stdout, stdout
        os.dup2(kept, 1)
        try:
            yield
        finally:
            stdout.flush()
            os.dup2(2, 1)
            sys.stdout = aside

    try:
        yield ours
    finally:
        if sys.stdout is sys.stderr:
            sys.stdout = stdout
        stdout.flush()  # of whoever kept it
        os.dup2(kept, 1)
        os.close(kept)


def pluralize(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_answer_json(value: Json) -> None:
    """With --json: what the hall answered; at a terminal everything that could hide or steer is a JSON escape."""
    if sys.stdout.isatty():
        print(json.dumps(value).replace("\x7f", "\\u007f"))
    else:
        print_json(value)
