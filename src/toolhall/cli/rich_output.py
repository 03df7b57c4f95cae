"""Terminal output that needs rich: tables, highlighted JSON, panels."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, chop_cells
from rich.columns import Columns
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from toolhall.cli.clients.base import DialectViews, ToolInfo
from toolhall.cli.output import BOLD, has_colour, pretty_json, visible
from toolhall.dialects.base import Loss
from toolhall.model.json import Json, JsonObject, encode


class RichProgressBar:
    """Shown from the start, gone at the end; texts are never markup."""

    def __init__(self) -> None:
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
        said = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True, markup=False, highlight=False)
        self._progress = Progress(*columns, said, console=console, transient=True)
        self._task = self._progress.add_task("")
        self._progress.start()

    def update(self, done: float, total: float | None, message: str) -> None:
        """Move it."""
        self._progress.update(self._task, completed=done, total=total, description=message)

    def print_above(self, line: str) -> None:
        """Write a line that stays."""
        self._progress.console.print(line, style="dim")

    def stop(self) -> None:
        """Take it away."""
        self._progress.stop()


_NO_TERMINAL_WIDTH = 100_000  # nothing is cut where no terminal sets a limit


def stdout_console() -> Console:
    """The standard output; rich honours NO_COLOR and leaves colour out where there is no terminal."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _NO_TERMINAL_WIDTH)


def plain_text(text: str, style: str = "") -> Text:
    """Text as it is, with nothing hidden in it."""
    return Text(visible(text, keep="\n"), style)


def print_value(value: Json) -> None:
    """A value as JSON over several lines."""
    stdout_console().print(_highlighted_json(value))


def _highlighted_json(value: Json) -> Text:
    text = Text(pretty_json(value))
    JSONHighlighter().highlight(text)
    return text


def print_tool_page(inspected: DialectViews) -> None:
    """Everything about one tool."""
    offer, out = inspected.tool, stdout_console()
    out.print(plain_text(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(plain_text(offer.description))
    out.print()
    out.print(_facts_table(offer))
    for heading, schema in (("Input schema", offer.input), ("Output schema", offer.output)):
        out.print()
        out.print(plain_text(heading, "bold"))
        out.print(plain_text("none") if schema is None else _highlighted_json(schema))
    out.print()
    out.print(plain_text("In each revision of MCP", "bold"))
    out.print(_revisions_table(inspected.revisions, inspected.is_same))
    out.print()
    out.print(plain_text("In other dialects", "bold"))
    panels = [
        _dialect_panel(dialect, view, inspected.losses[dialect]) for dialect, view in inspected.other_dialects.items()
    ]
    out.print(Columns(panels) if sys.stdout.isatty() else Group(*panels))


def print_tool_summaries(found: list[DialectViews]) -> None:
    """A few lines about each tool."""
    for inspected in found:
        _print_tool_summary(inspected)


def _print_tool_summary(inspected: DialectViews) -> None:
    offer, out = inspected.tool, stdout_console()
    parameters = ", ".join(offer.input.get("properties", {})) or "none"
    out.print(plain_text(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(plain_text(f"  {offer.description.strip().splitlines()[0]}"))
    out.print(plain_text(f"  published as {offer.name}; level {_level(offer)}; effect {offer.effect or 'not stated'}"))
    out.print(plain_text(f"  parameters: {parameters}"))
    different = ", ".join(str(each["path"]).removeprefix("/") for each in inspected.differences())
    if different:
        out.print(plain_text(f"  differs between revisions of MCP: {different}", "yellow"))


def _level(offer: ToolInfo) -> str:
    """What the tool states, and the level that counts where that is another one."""
    stated = "not stated" if offer.level is None else str(offer.level)
    if offer.effective_level is None or offer.effective_level == offer.level:
        return stated
    return f"{offer.effective_level} ({'it states none' if offer.level is None else f'it states {stated}'})"


def _facts_table(offer: ToolInfo) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    facts = {
        "published as": offer.name,
        "title": offer.title,
        "version": offer.version,
        "other versions": ", ".join(version for version in offer.versions if version != offer.version) or "none",
        "level": _level(offer),
        "effect": offer.effect,
        "annotations": ", ".join(
            f"{hint}={encode(value).decode()}" for hint, value in (offer.annotations or {}).items()
        ),
        "tags": ", ".join(offer.tags),
        "requirements": None if offer.requirements is None else encode(offer.requirements).decode(),
        "timeout": None if offer.timeout is None else f"{offer.timeout:g} s",
    }
    for name, value in facts.items():
        table.add_row(plain_text(name, "dim"), plain_text("not stated" if value in (None, "") else str(value)))
    return table


def _revisions_table(views: dict[str, JsonObject], is_same: Callable[[str], bool]) -> Table:
    """A line for each member; what differs is shown in full and highlighted."""
    table = Table(header_style="bold", show_lines=True)
    table.add_column("")
    for dialect in views:
        table.add_column(dialect, overflow="fold")
    for member in dict.fromkeys(name for view in views.values() for name in view):
        if is_same(member):
            table.add_row(plain_text(f"/{member}"), *(plain_text("same", "dim") for _ in views))
        else:
            table.add_row(plain_text(f"/{member}", "yellow"), *(_member_text(view, member) for view in views.values()))
    return table


def _dialect_panel(dialect: str, view: JsonObject, losses: list[Loss]) -> Panel:
    """A whole document, with what it cannot say below it; as many as fit stand side by side."""
    unsaid = ", ".join(loss.path.removeprefix("/") for loss in losses)
    below = plain_text(f"cannot say: {unsaid}" if unsaid else "says everything", "yellow" if unsaid else "dim")
    shown = view["paths"] if dialect == "openapi" else view  # the rest is the same for every tool
    return Panel(Group(_highlighted_json(shown), below), title=plain_text(dialect, "bold"), expand=False)


def _member_text(view: JsonObject, member: str) -> Text:
    return plain_text(pretty_json(view[member]), "yellow") if member in view else plain_text("left out", "dim")


_GAP = "  "
_MIN_LAST_COLUMN = 16  # a last column with less room than this is left to the terminal to break
_NO_STYLES: Mapping[str, str] = {}


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str] = _NO_STYLES, *, first: str = ""
) -> None:
    """One line for each row, with nothing hidden in it; at a terminal the last column is broken to fit.

    `styles` are the colours of some words, `first` is that of the whole first column.
    """
    shown = [[visible(text) for text in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *shown, strict=True)]
    draw = _TableLayout(widths)
    lines = [draw.row(headings, [BOLD] * len(headings))]
    for row in shown:
        colours = [styles.get(text, "") for text in row]
        lines.append(draw.row(row, [first or colours[0], *colours[1:]]))
    sys.stdout.write("\n".join([*lines, ""]))


class _TableLayout:
    """Columns of these widths, on the standard output as it is."""

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = widths
        self._indent = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        self._coloured = has_colour(sys.stdout)
        left = shutil.get_terminal_size().columns - self._indent
        self._room = left if sys.stdout.isatty() and left >= _MIN_LAST_COLUMN else widths[-1]

    def row(self, texts: Sequence[str], styles: Sequence[str]) -> str:
        """One row, over as many lines as its last text takes."""
        start, *further = _wrapped(texts[-1], self._room)
        cells = zip([*texts[:-1], start], styles, self._widths, strict=True)
        line = _GAP.join(self._cell(text, style) + " " * (width - _width(text)) for text, style, width in cells)
        below = [" " * self._indent + self._cell(text, styles[-1]) for text in further]
        return "\n".join([line.rstrip(" "), *below])

    def _cell(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and text and self._coloured else text


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Lines that fit, broken between words where that can be."""
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
        *whole, line = chop_cells(word, width)
        yield from whole
    yield line
