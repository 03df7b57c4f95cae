"""`GET /tools`: definitions in any dialect, searched and paged."""

from toolhall.dialects.catalogs import documents_in, writable
from toolhall.dialects.openapi.errors import write_error
from toolhall.hall import Hall
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Snapshot
from toolhall.transports.exchange import Exchange

DEFAULT_DIALECT = "mcp"
_PARAMETERS = {"dialect", "query", "toolkit", "tag", "cursor"}


class Listing:
    """The tools this caller may see, as documents of the dialect it names."""

    def __init__(self, hall: Hall, page_size: int) -> None:
        self._hall = hall
        self._page_size = page_size

    async def __call__(self, exchange: Exchange) -> None:
        """One page."""
        if exchange.method != "GET":
            await exchange.refuse(405, "use GET", (b"allow", b"GET"))
            return
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
        page = Snapshot(
            (entry for entry in self._hall.view(exchange.caller).entries if _matches(entry.tool, asked)),
            self._page_size,
        ).page(asked.get("cursor"))
        more = {} if page.next is None else {"nextCursor": page.next}
        return {"dialect": dialect, "tools": documents_in(dialect, page.tools), **more}


def _matches(tool: Tool, asked: dict[str, str]) -> bool:
    """Every word of the query occurs somewhere in the tool's texts."""
    if asked.get("toolkit", tool.id.toolkit) != tool.id.toolkit:
        return False
    if "tag" in asked and asked["tag"] not in tool.tags:
        return False
    text = " ".join([tool.name, tool.id.toolkit, tool.title or "", tool.description or "", *tool.tags]).casefold()
    return all(word in text for word in asked.get("query", "").casefold().split())
