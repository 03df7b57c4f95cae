"""The program's help page, printed without cyclopts and rich: `print_help_page`.

It looks as cyclopts prints it, from the same table; a test compares both. Terminals that rich treats specially, and
narrow ones, are left to cyclopts.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from toolhall.cli.command_table import EPILOGUE, SECTIONS, SUMMARY
from toolhall.cli.output import BOLD, CYAN, has_colour, styled, wrapped

_DEFAULT_WIDTH = 80
_MIN_WIDTH = 50  # below, cyclopts gives the names less room
_GAP = "  "
_OPTIONS = (("--help (-h)", "Display this message and exit."), ("--version", "Display application version."))
_SPECIAL_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")  # rich reads these


def print_help_page() -> bool:
    """Print the help page; False, with nothing printed, where cyclopts has to print it."""
    stream = sys.stdout
    plain = not stream.isatty() or has_colour(stream)
    width = _terminal_width()
    if not plain or width < _MIN_WIDTH or stream.encoding.lower() != "utf-8" or any(map(os.getenv, _SPECIAL_VARIABLES)):
        return False
    print("\n".join(_page(width)))
    return True


def _terminal_width() -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal():
        return int(columns)
    for descriptor in (0, 1, 2):
        try:
            return os.get_terminal_size(descriptor).columns or _DEFAULT_WIDTH
        except OSError:
            continue
    return _DEFAULT_WIDTH


def _page(width: int) -> Iterator[str]:
    yield styled("Usage: toolhall COMMAND", BOLD, sys.stdout)
    yield ""
    yield from wrapped(SUMMARY, width)
    yield ""
    for section in SECTIONS:
        rows = sorted((entry.name, entry.help_text) for entry in section.entries)
        example = wrapped(f"Example: toolhall {section.example}", width - 4)
        yield from _panel(section.title, [*example, "", *_table(rows, width - 4)], width)
    yield from _panel("Options", _table(_OPTIONS, width - 4), width)
    yield ""
    yield from wrapped(EPILOGUE, width)


def _panel(title: str, lines: Iterable[str], width: int) -> Iterator[str]:
    """The lines in a box; a line is padded by its own letters, because escape sequences take no room."""
    yield f"╭─ {title} {'─' * (width - len(title) - 5)}╮"
    for line in lines:
        yield f"│ {line}{' ' * (width - 4 - _letters(line))} │"
    yield f"╰{'─' * (width - 2)}╯"


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    column = max(len(name) for name, _ in rows)
    for name, text in rows:
        first, *further = wrapped(text, width - column - len(_GAP))
        yield f"{styled(name.ljust(column), CYAN, sys.stdout)}{_GAP}{first}"
        yield from (f"{' ' * column}{_GAP}{line}" for line in further)


def _letters(line: str) -> int:
    return len(line) - (len(styled("", CYAN, sys.stdout)) if line.startswith("\x1b") else 0)
