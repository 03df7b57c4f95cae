"""`toolhall inspect`: everything about one tool, with each MCP revision's view beside the others."""

from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.pages import cell, page, pretty, pretty_block
from toolhall.cli.screen import print_json
from toolhall.cli.source import SourceOptions, dialect_of, opened
from toolhall.cli.sources.offer import Offer, Source, find_offer
from toolhall.cli.targets import looks_like_target
from toolhall.config import Config
from toolhall.dialects.mcp.revisions import REVISIONS
from toolhall.model.json import JsonObject, encode

_DEFAULTS = SourceOptions()


class Inspected(msgspec.Struct, frozen=True):
    """A tool, and how each dialect shows it."""

    offer: Offer
    views: dict[str, JsonObject]

    def differences(self) -> list[JsonObject]:
        """The members that not every dialect shows alike; one that a dialect leaves out has no value there."""
        members = dict.fromkeys(name for view in self.views.values() for name in view)
        return [
            {
                "path": f"/{name}",
                "values": {dialect: view[name] for dialect, view in self.views.items() if name in view},
            }
            for name in members
            if not self.is_same(name)
        ]

    def is_same(self, member: str) -> bool:
        """Whether every dialect shows this member alike."""
        return len({encode(view[member]) if member in view else b"" for view in self.views.values()}) == 1

    def document(self) -> JsonObject:
        """What `inspect --json` prints."""
        extra = {"annotations": self.offer.annotations, "tags": self.offer.tags, "timeout": self.offer.timeout}
        return {**self.offer.summary(), **extra, "views": self.views, "differences": self.differences()}


def inspect(*words: str, options: Annotated[SourceOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show everything about one tool, or about all of them briefly.

    Parameters
    ----------
    words
        [TARGET] [TOOL]: where the tools are (the example toolkit when left out), and the name or id of one.
    """
    start_logging(None)
    target, tool = _sort(words, options)
    with opened(options, target, Config()) as source:
        offers = source.offers()
        chosen = [find_offer(offers, tool)] if tool else offers
        views = _views(source)
    found = [
        Inspected(offer, {dialect: tools[offer.name] for dialect, tools in views.items() if offer.name in tools})
        for offer in chosen
    ]
    if options.json:
        print_json(found[0].document() if tool else [each.document() for each in found])
    elif tool:
        _print_whole(found[0])
    else:
        for each in found:
            _print_briefly(each)


def _sort(words: tuple[str, ...], options: SourceOptions) -> tuple[str | None, str | None]:
    """Which word is the target and which the tool."""
    has_source = bool(options.url or options.target)
    match words:
        case ():
            return None, None
        case (word,) if not has_source and looks_like_target(word):
            return word, None
        case (word,):
            return None, word
        case (first, second) if not has_source:
            swapped = looks_like_target(second) and not looks_like_target(first)
            return (second, first) if swapped else (first, second)
        case _:
            raise WrongUsage("too many words; write: toolhall inspect [TARGET or --url URL] [TOOL]")


def _views(source: Source) -> dict[str, dict[str, JsonObject]]:
    """For each revision that the source speaks, its definitions by name."""
    views: dict[str, dict[str, JsonObject]] = {}
    for revision in REVISIONS:
        try:
            documents = source.documents(revision)
        except CommandFailed:  # an older or a newer server
            continue
        views[dialect_of(revision)] = {str(document.get("name")): document for document in documents}
    return views


def _print_whole(inspected: Inspected) -> None:
    offer, out = inspected.offer, page()
    out.print(cell(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(cell(offer.description))
    out.print()
    out.print(_facts(offer))
    for heading, schema in (("Input schema", offer.input), ("Output schema", offer.output)):
        out.print()
        out.print(cell(heading, "bold"))
        out.print(cell("none") if schema is None else pretty_block(schema))
    out.print()
    out.print(cell("In each dialect", "bold"))
    out.print(_side_by_side(inspected))


def _print_briefly(inspected: Inspected) -> None:
    offer, out = inspected.offer, page()
    level = "not stated" if offer.level is None else str(offer.level)
    parameters = ", ".join(offer.input.get("properties", {})) or "none"
    out.print(cell(offer.id or offer.name, "bold cyan"))
    if offer.description:
        out.print(cell(f"  {offer.description.strip().splitlines()[0]}"))
    out.print(cell(f"  published as {offer.name}; level {level}; effect {offer.effect or 'not stated'}"))
    out.print(cell(f"  parameters: {parameters}"))
    different = ", ".join(str(each["path"]).removeprefix("/") for each in inspected.differences())
    if different:
        out.print(cell(f"  differs between dialects: {different}", "yellow"))


def _facts(offer: Offer) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    facts = {
        "published as": offer.name,
        "title": offer.title,
        "version": offer.version,
        "level": offer.level,
        "effect": offer.effect,
        "annotations": ", ".join(
            f"{hint}={encode(value).decode()}" for hint, value in (offer.annotations or {}).items()
        ),
        "tags": ", ".join(offer.tags),
        "timeout": None if offer.timeout is None else f"{offer.timeout:g} s",
    }
    for name, value in facts.items():
        table.add_row(cell(name, "dim"), cell("not stated" if value in (None, "") else str(value)))
    return table


def _side_by_side(inspected: Inspected) -> Table:
    """A line for each member; what differs is shown in full and highlighted."""
    table = Table(header_style="bold", show_lines=True)
    table.add_column("")
    for dialect in inspected.views:
        table.add_column(dialect, overflow="fold")
    for member in dict.fromkeys(name for view in inspected.views.values() for name in view):
        if inspected.is_same(member):
            table.add_row(cell(f"/{member}"), *(cell("same", "dim") for _ in inspected.views))
        else:
            table.add_row(cell(f"/{member}", "yellow"), *(_shown(view, member) for view in inspected.views.values()))
    return table


def _shown(view: JsonObject, member: str) -> Text:
    return cell(pretty(view[member]), "yellow") if member in view else cell("left out", "dim")
