"""`GET /tools`: definitions in any dialect, searched and paged."""

from collections.abc import Sequence

from toolhall.dialects.catalog import Written
from toolhall.dialects.catalogs import writable
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.functions import by_tool
from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.partition import partition
from toolhall.dialects.written import written_in
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Page, Wire
from toolhall.model.json import JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.registry.entry import Entry
from toolhall.registry.search import Search
from toolhall.registry.snapshot import Snapshot
from toolhall.transports.exchange import Exchange

DEFAULT_DIALECT = "mcp"
_PARAMETERS = {"dialect", "query", "toolkit", "tool", "tag", "cursor"}


class Listing:
    """The tools this caller may see, as documents of the dialect it names."""

    def __init__(self, hall: Hall, page_size: int) -> None:
        self._hall = hall
        self._page_size = page_size
        self._search = Search()

    async def __call__(self, exchange: Exchange) -> None:
        """One page."""
        try:
            wire = Wire(encode(self._page(exchange)))
        except ToolhallError as error:
            wire = write_error(error)
        await exchange.reply(wire)

    def _page(self, exchange: Exchange) -> JsonObject:
        asked = exchange.parameters
        unknown = min(asked.keys() - _PARAMETERS, default=None)
        if unknown is not None:
            raise Malformed(f"there is no parameter {unknown[:32]!r}; use {', '.join(sorted(_PARAMETERS))}")
        dialect = writable(asked.get("dialect", DEFAULT_DIALECT)).name
        found = (entry for entry in self._ranked(exchange.caller, asked.get("query")) if _matches(entry.tool, asked))
        page = _page(Snapshot(found, self._page_size), asked.get("cursor"))
        more = {} if page.next is None else {"nextCursor": page.next}
        return {"dialect": dialect, **_written(dialect, page.tools), **more}

    def _ranked(self, caller: Caller, query: str | None) -> Sequence[Entry]:
        """Everything, or what a query finds, best first."""
        view = self._hall.view(caller)
        if not query:
            return view.entries
        seen = {entry.tool.id: entry for entry in view.entries}
        found = self._search.find(self._hall.registry.snapshot, query, len(seen), lambda tool: tool.id in seen)
        return [seen[tool.id] for tool in found]


def _page(snapshot: Snapshot, cursor: str | None) -> Page:
    try:
        return snapshot.page(cursor)
    except Malformed as error:
        raise NotFound(error.message) from None  # to REST, a page that is not there


def _written(dialect: str, tools: Sequence[Tool]) -> JsonObject:
    """The documents; tools that the dialect would change (OpenAI's strict mode) are named with the reasons instead."""
    try:
        return _documents(dialect, tools)
    except BadDocument:
        kept, refused = partition(dialect, tools)
        return {**_documents(dialect, kept), "refused": refused}


def _documents(dialect: str, tools: Sequence[Tool]) -> JsonObject:
    written = written_in(dialect, tools) if tools else Written([], [])
    losses = [
        {"tool": tools[number].name, "path": loss.path, "reason": loss.reason}
        for number, loss in by_tool(written.losses, len(tools))
    ]
    return {"tools": written.documents, "losses": losses}


def _matches(tool: Tool, asked: dict[str, str]) -> bool:
    """Whether it is one of those that were asked for by name or tag."""
    if asked.get("toolkit", tool.id.toolkit) != tool.id.toolkit:
        return False
    if asked.get("tool", tool.name) not in (tool.name, str(tool.id), f"{tool.id.toolkit}.{tool.id.tool}"):
        return False
    return "tag" not in asked or asked["tag"] in tool.tags
