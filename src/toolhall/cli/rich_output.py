"""Terminal output that needs rich: progress bar, highlighted JSON, the pages of `toolhall inspect`.

Import it lazily: rich is slow to import.
"""

import sys
from collections.abc import Callable, Mapping, Sequence

from rich.columns import Columns
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from toolhall.cli.clients.base import Described, DialectViews, ToolInfo, is_same_in
from toolhall.cli.clients.descriptions import PromptDescription, ResourceDescription
from toolhall.cli.output import pretty_json, visible
from toolhall.dialects.base import Loss
from toolhall.model.json import Json, JsonObject, encode


class RichProgressBar:
    """A progress bar on stderr that disappears when it is stopped; texts are never read as markup."""

    def __init__(self) -> None:
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
        description = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True, markup=False, highlight=False)
        self._progress = Progress(*columns, description, console=console, transient=True)
        self._task = self._progress.add_task("")
        self._progress.start()

    def update(self, done: float, total: float | None, message: str) -> None:
        """Show this progress and message."""
        self._progress.update(self._task, completed=done, total=total, description=message)

    def print_above(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, style="dim")

    def stop(self) -> None:
        """Remove the bar."""
        self._progress.stop()


_NO_TERMINAL_WIDTH = 100_000  # without a terminal nothing is wrapped


def stdout_console() -> Console:
    """A console on stdout without markup; rich honours NO_COLOR and uses colour only at a terminal."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _NO_TERMINAL_WIDTH)


def plain_text(text: str, style: str = "") -> Text:
    """The text without markup, with invisible characters made visible."""
    return Text(visible(text, keep="\n"), style)


def print_value(value: Json) -> None:
    """Print a value as highlighted JSON over several lines."""
    stdout_console().print(_highlighted_json(value))


def _highlighted_json(value: Json) -> Text:
    text = Text(pretty_json(value))
    JSONHighlighter().highlight(text)
    return text


def print_tool_page(inspected: DialectViews) -> None:
    """Print everything about one tool, with its views in every dialect."""
    info, out = inspected.tool, stdout_console()
    out.print(plain_text(info.id or info.name, "bold cyan"))
    if info.description:
        out.print(plain_text(info.description))
    out.print()
    out.print(_facts_table(info))
    for heading, schema in (("Input schema", info.input), ("Output schema", info.output)):
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


def print_tool_summaries(tools: list[DialectViews]) -> None:
    """Print a few lines about each tool."""
    for inspected in tools:
        _print_tool_summary(inspected)


def _print_tool_summary(inspected: DialectViews) -> None:
    info, out = inspected.tool, stdout_console()
    parameters = ", ".join(info.input.get("properties", {})) or "none"
    out.print(plain_text(info.id or info.name, "bold cyan"))
    if info.description:
        out.print(plain_text(f"  {info.description.strip().splitlines()[0]}"))
    out.print(plain_text(f"  published as {info.name}; level {_level(info)}; effect {info.effect or 'not stated'}"))
    out.print(plain_text(f"  parameters: {parameters}"))
    different = ", ".join(str(each["path"]).removeprefix("/") for each in inspected.differences())
    if different:
        out.print(plain_text(f"  differs between revisions of MCP: {different}", "yellow"))


def print_summaries(described: Sequence[ResourceDescription | PromptDescription]) -> None:
    """Print a few lines about each resource and prompt."""
    out = stdout_console()
    for each in described:
        out.print(plain_text(each.heading, "bold cyan"))
        if each.description:
            out.print(plain_text(f"  {each.description.strip().splitlines()[0]}"))
        own = "; ".join(f"{name} {value}" for name, value in each.facts.items() if value and name != "kind")
        about = f"published as {each.name}; level {_level(each)}; {own or 'type not stated'}"
        out.print(plain_text(f"  {each.facts['kind']} {about}"))


def print_description(described: ResourceDescription | PromptDescription) -> None:
    """Print everything about one resource or prompt, with its definition in each revision of MCP that is known."""
    out = stdout_console()
    out.print(plain_text(described.heading, "bold cyan"))
    if described.description:
        out.print(plain_text(described.description))
    out.print()
    common = {
        "id": described.id,
        "published as": described.name,
        "title": described.title,
        "version": described.version,
        "level": _level(described),
    }
    out.print(_facts_rows(described.facts | common))
    if described.input is not None and described.input.get("properties"):
        out.print()
        out.print(plain_text("Schema of its arguments", "bold"))
        out.print(_highlighted_json(described.input))
    out.print()
    newest = described.views[max(described.views)]
    different = [member for member in newest if not is_same_in(described.views, member)]
    out.print(plain_text("In MCP", "bold"))
    out.print(_highlighted_json(newest))
    if different:
        out.print(plain_text(f"differs between revisions of MCP: {', '.join(different)}", "yellow"))


def _level(info: Described) -> str:
    """The effective level, and the stated one where it is another."""
    stated = "not stated" if info.level is None else str(info.level)
    if info.effective_level is None or info.effective_level == info.level:
        return stated
    return f"{info.effective_level} ({'it states none' if info.level is None else f'it states {stated}'})"


def _facts_table(info: ToolInfo) -> Table:
    return _facts_rows(
        {
            "published as": info.name,
            "title": info.title,
            "version": info.version,
            "other versions": ", ".join(version for version in info.versions if version != info.version) or "none",
            "level": _level(info),
            "effect": info.effect,
            "annotations": ", ".join(
                f"{hint}={encode(value).decode()}" for hint, value in (info.annotations or {}).items()
            ),
            "tags": ", ".join(info.tags),
            "requirements": None if info.requirements is None else encode(info.requirements).decode(),
            "timeout": None if info.timeout is None else f"{info.timeout:g} s",
        }
    )


def _facts_rows(facts: Mapping[str, str | None]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        table.add_row(plain_text(name, "dim"), plain_text("not stated" if value in (None, "") else str(value)))
    return table


def _revisions_table(views: dict[str, JsonObject], is_same: Callable[[str], bool]) -> Table:
    """A row for each member of the definition; members that differ between revisions are shown in full."""
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
    """The document of one dialect, with what the dialect cannot express below it."""
    lost = ", ".join(loss.path.removeprefix("/") for loss in losses)
    below = plain_text(f"cannot say: {lost}" if lost else "says everything", "yellow" if lost else "dim")
    shown = view["paths"] if dialect == "openapi" else view  # the rest is the same for every tool
    return Panel(Group(_highlighted_json(shown), below), title=plain_text(dialect, "bold"), expand=False)


def _member_text(view: JsonObject, member: str) -> Text:
    return plain_text(pretty_json(view[member]), "yellow") if member in view else plain_text("left out", "dim")
