"""Pages for people, drawn with rich: colour and width are the terminal's, and text from elsewhere is never markup."""

import sys

import msgspec
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from toolhall.cli.screen import visible
from toolhall.model.json import Json

_WIDE = 100_000  # nothing is cut where no terminal sets a limit


def page() -> Console:
    """The standard output; rich honours NO_COLOR and leaves colour out where there is no terminal."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDE)


def cell(text: str, style: str = "") -> Text:
    """Text as it is, with nothing hidden in it."""
    return Text(visible(text, keep="\n"), style)


def pretty(value: Json) -> str:
    """A value as JSON over several lines, with nothing hidden in it."""
    return visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), keep="\n")


def pretty_block(value: Json) -> "Syntax | Text":
    """The same, coloured on a terminal."""
    text = pretty(value)
    return Syntax(text, "json", background_color="default", word_wrap=True) if sys.stdout.isatty() else Text(text)
