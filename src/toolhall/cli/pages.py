"""Pages for people, drawn with rich: colour and width are the terminal's, and text from elsewhere is never markup."""

import sys
from collections.abc import Callable

from rich.columns import Columns
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from toolhall.cli.screen import pretty, visible
from toolhall.cli.sources.offer import Offer
from toolhall.cli.views import Inspected
from toolhall.dialects.catalog import Loss
from toolhall.model.json import Json, JsonObject, encode

_WIDE = 100_000  # nothing is cut where no terminal sets a limit


def page() -> Console:
    """The standard output; rich honours NO_COLOR and leaves colour out where there is no terminal."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDE)


def cell(text: str, style: str = "") -> Text:
    """Text as it is, with nothing hidden in it."""
    return Text(visible(text, keep="\n"), style)


def print_value(value: Json) -> None:
    """A value as JSON over several lines."""
    page().print(_json(value))


def _json(value: Json) -> Text:
    text = Text(pretty(value))
    JSONHighlighter().highlight(text)
    return text


def print_whole(inspected: Inspected) -> None:
    """Everything about one tool."""
    offer, out = inspected.offer, page()
    out.print(cell(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(cell(offer.description))
    out.print()
    out.print(_facts(offer))
    for heading, schema in (("Input schema", offer.input), ("Output schema", offer.output)):
        out.print()
        out.print(cell(heading, "bold"))
        out.print(cell("none") if schema is None else _json(schema))
    out.print()
    out.print(cell("In each revision of MCP", "bold"))
    out.print(_side_by_side(inspected.revisions, inspected.is_same))
    out.print()
    out.print(cell("In other dialects", "bold"))
    panels = [_panel(dialect, view, inspected.losses[dialect]) for dialect, view in inspected.others.items()]
    out.print(Columns(panels) if sys.stdout.isatty() else Group(*panels))


def print_briefly(found: list[Inspected]) -> None:
    """A few lines about each tool."""
    for inspected in found:
        _print_few_lines(inspected)


def _print_few_lines(inspected: Inspected) -> None:
    offer, out = inspected.offer, page()
    parameters = ", ".join(offer.input.get("properties", {})) or "none"
    out.print(cell(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(cell(f"  {offer.description.strip().splitlines()[0]}"))
    out.print(cell(f"  published as {offer.name}; level {_level(offer)}; effect {offer.effect or 'not stated'}"))
    out.print(cell(f"  parameters: {parameters}"))
    different = ", ".join(str(each["path"]).removeprefix("/") for each in inspected.differences())
    if different:
        out.print(cell(f"  differs between revisions of MCP: {different}", "yellow"))


def _level(offer: Offer) -> str:
    """What the tool states, and the level that counts where that is another one."""
    stated = "not stated" if offer.level is None else str(offer.level)
    if offer.effective_level is None or offer.effective_level == offer.level:
        return stated
    return f"{offer.effective_level} ({'it states none' if offer.level is None else f'it states {stated}'})"


def _facts(offer: Offer) -> Table:
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
        table.add_row(cell(name, "dim"), cell("not stated" if value in (None, "") else str(value)))
    return table


def _side_by_side(views: dict[str, JsonObject], is_same: Callable[[str], bool]) -> Table:
    """A line for each member; what differs is shown in full and highlighted."""
    table = Table(header_style="bold", show_lines=True)
    table.add_column("")
    for dialect in views:
        table.add_column(dialect, overflow="fold")
    for member in dict.fromkeys(name for view in views.values() for name in view):
        if is_same(member):
            table.add_row(cell(f"/{member}"), *(cell("same", "dim") for _ in views))
        else:
            table.add_row(cell(f"/{member}", "yellow"), *(_shown(view, member) for view in views.values()))
    return table


def _panel(dialect: str, view: JsonObject, losses: list[Loss]) -> Panel:
    """A whole document, with what it cannot say below it; as many as fit stand side by side."""
    unsaid = ", ".join(loss.path.removeprefix("/") for loss in losses)
    below = cell(f"cannot say: {unsaid}" if unsaid else "says everything", "yellow" if unsaid else "dim")
    shown = view["paths"] if dialect == "openapi" else view  # the rest is the same for every tool
    return Panel(Group(_json(shown), below), title=cell(dialect, "bold"), expand=False)


def _shown(view: JsonObject, member: str) -> Text:
    return cell(pretty(view[member]), "yellow") if member in view else cell("left out", "dim")
