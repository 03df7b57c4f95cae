"""Tables for people, drawn line by line, so that ten thousand rows take a moment."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, chop_cells

from toolhall.cli.screen import BOLD, has_colour, visible

_GAP = "  "
_NARROWEST = 16  # a last column with less room than this is left to the terminal to break
_PLAIN: Mapping[str, str] = {}


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str] = _PLAIN, *, first: str = ""
) -> None:
    """One line for each row, with nothing hidden in it; at a terminal the last column is broken to fit.

    `styles` are the colours of some words, `first` is that of the whole first column.
    """
    shown = [[visible(text) for text in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *shown, strict=True)]
    draw = _Drawing(widths)
    lines = [draw.row(headings, [BOLD] * len(headings))]
    for row in shown:
        colours = [styles.get(text, "") for text in row]
        lines.append(draw.row(row, [first or colours[0], *colours[1:]]))
    sys.stdout.write("\n".join([*lines, ""]))


class _Drawing:
    """Columns of these widths, on the standard output as it is."""

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = widths
        self._indent = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        self._coloured = has_colour(sys.stdout)
        left = shutil.get_terminal_size().columns - self._indent
        self._room = left if sys.stdout.isatty() and left >= _NARROWEST else widths[-1]

    def row(self, texts: Sequence[str], styles: Sequence[str]) -> str:
        """One row, over as many lines as its last text takes."""
        start, *further = _broken(texts[-1], self._room)
        cells = zip([*texts[:-1], start], styles, self._widths, strict=True)
        line = _GAP.join(self._cell(text, style) + " " * (width - _width(text)) for text, style, width in cells)
        below = [" " * self._indent + self._cell(text, styles[-1]) for text in further]
        return "\n".join([line.rstrip(" "), *below])

    def _cell(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and text and self._coloured else text


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _broken(text: str, room: int) -> Iterator[str]:
    """Lines that fit, broken between words where that can be."""
    if _width(text) <= room:
        yield text
        return
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if _width(joined) <= room:
            line = joined
            continue
        if line:
            yield line
        *whole, line = chop_cells(word, room)
        yield from whole
    yield line
