"""Terminal output: results and tables on stdout, messages for people on stderr, invisible characters made visible."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from toolhall.model.json import Json

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
# Control, format (bidirectional, zero width, tags), private and unassigned characters are not `str.isprintable`.
# These are, and show as nothing or as a blank all the same.
_BLANK = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"

_GAP = "  "
_MIN_LAST_COLUMN = 16  # a last column with less room than this is left to the terminal to break
_NO_STYLES: Mapping[str, str] = {}


def print_json(value: "Json") -> None:
    """Print one JSON document on a line of its own, in UTF-8 whatever the terminal's encoding."""
    from toolhall.model.json import encode  # lazy: msgspec, which help pages do not need

    sys.stdout.flush()
    sys.stdout.buffer.write(encode(value) + b"\n")
    sys.stdout.buffer.flush()


def print_answer_json(value: "Json") -> None:
    """Print a hall's answer for --json; at a terminal, control and non-ASCII characters become JSON escapes."""
    if sys.stdout.isatty():
        import json  # lazy: everything else is encoded by msgspec

        print(json.dumps(value).replace("\x7f", "\\u007f"))
    else:
        print_json(value)


def note(line: str = "") -> None:
    """Print a line for the person to stderr."""
    print(line, file=sys.stderr, flush=True)


def visible(text: str, keep: str = "") -> str:
    """The text with control and invisible characters written as <U+XXXX>, except those in `keep`."""
    if text.isprintable() and (text.isascii() or not re.search(_BLANK, text)):
        return text
    return "".join(letter if _is_visible(letter) or letter in keep else f"<U+{ord(letter):04X}>" for letter in text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() and not re.match(_BLANK, letter)


def visible_json(value: "Json") -> str:
    """A value as one line of JSON, with invisible characters made visible."""
    from toolhall.model.json import encode  # lazy: msgspec, which help pages do not need

    return encode(_visible_parts(value)).decode()


def pretty_json(value: "Json") -> str:
    """A value as JSON over several lines, with invisible characters made visible."""
    import msgspec  # lazy: help pages do not need it

    return visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), keep="\n")


def _visible_parts(value: "Json") -> "Json":
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
    """The text in a colour or weight, if the stream shows colour."""
    return f"\x1b[{style}m{text}\x1b[0m" if has_colour(stream) else text


def print_styled(text: str, style: str) -> None:
    """Print a line to stdout in a colour or weight, if it shows colour."""
    print(styled(text, style, sys.stdout))


def has_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colour; NO_COLOR (no-color.org) switches it off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_interactive() -> bool:
    """Whether a person at a terminal can read a question and type an answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def stdout_to_stderr() -> Generator[Callable[[], AbstractContextManager[None]], None, None]:
    """Context in which what other code prints to stdout goes to stderr, so that stdout holds only the result.

    Yields a context manager in which stdout is the real one again.
    """
    stdout = sys.stdout
    stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # line-buffered, and redacted in a server

    @contextlib.contextmanager
    def real_stdout() -> Generator[None, None, None]:
        redirected, sys.stdout = sys.stdout, stdout
        os.dup2(saved, 1)
        try:
            yield
        finally:
            stdout.flush()
            os.dup2(2, 1)
            sys.stdout = redirected

    try:
        yield real_stdout
    finally:
        if sys.stdout is sys.stderr:
            sys.stdout = stdout
        stdout.flush()  # what code that holds the old object has written
        os.dup2(saved, 1)
        os.close(saved)


def pluralize(number: int, noun: str) -> str:
    """A number with its noun, such as `2 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str] = _NO_STYLES, *, first: str = ""
) -> None:
    """Print a table; invisible characters are made visible, and at a terminal the last column is wrapped to fit.

    `styles` colours cells by their text, `first` the whole first column.
    """
    cells = [[visible(text) for text in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *cells, strict=True)]
    layout = _TableLayout(widths)
    lines = [layout.row(headings, [BOLD] * len(headings))]
    for row in cells:
        colours = [styles.get(text, "") for text in row]
        lines.append(layout.row(row, [first or colours[0], *colours[1:]]))
    sys.stdout.write("\n".join([*lines, ""]))


class _TableLayout:
    """Lays out rows in columns of these widths for stdout."""

    def __init__(self, widths: Sequence[int]) -> None:
        import shutil  # lazy: the compression libraries

        self._widths = widths
        self._indent = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        self._coloured = has_colour(sys.stdout)
        left = shutil.get_terminal_size().columns - self._indent
        self._room = left if sys.stdout.isatty() and left >= _MIN_LAST_COLUMN else widths[-1]

    def row(self, texts: Sequence[str], styles: Sequence[str]) -> str:
        """One row, of as many lines as its last cell needs."""
        start, *further = wrapped(texts[-1], self._room)
        cells = zip([*texts[:-1], start], styles, self._widths, strict=True)
        line = _GAP.join(self._cell(text, style) + " " * (width - _width(text)) for text, style, width in cells)
        below = [" " * self._indent + self._cell(text, styles[-1]) for text in further]
        return "\n".join([line.rstrip(" "), *below])

    def _cell(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and text and self._coloured else text


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # lazy: rich, only for wide or combining characters

    return cell_len(text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of at most this width, broken between words where possible."""
    if _width(text) <= width:
        yield text
        return
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if _width(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        *whole, line = _chopped(word, width)
        yield from whole
    yield line


def _chopped(word: str, width: int) -> list[str]:
    if _width(word) <= width:
        return [word]
    from rich.cells import chop_cells  # lazy: rich, only for words that are longer than a line

    return chop_cells(word, width)
