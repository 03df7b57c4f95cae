"""The definitions of a server in any dialect: as it writes them itself, or else written here from what MCP shows."""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.sources.offer import Shown
from toolhall.cli.sources.rpc import LIST_SECONDS, MOST_PAGES
from toolhall.cli.sources.wire import MCP_PATH, Endpoint, Exchange
from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.definition import read_tool
from toolhall.dialects.partition import Unsayable, partition
from toolhall.dialects.written import written_in
from toolhall.model.json import JsonObject


def fetch_written(endpoint: Endpoint, dialect: str, tool: str | None) -> Shown | None:
    """What `GET /tools` says; None from a server that has no such listing."""
    if not endpoint.path.endswith(MCP_PATH):
        return None
    shown = Shown([], [], [])
    wanted = {"dialect": dialect, **({"tool": tool} if tool else {})}
    for page in _pages(endpoint, wanted):
        if page is None:
            return None
        shown.documents.extend(page.tools)
        shown.losses.extend(
            Loss(loss.path if tool else f"/{loss.tool}{loss.path}", loss.reason) for loss in page.losses
        )
        shown.refused.extend(page.refused)
    return shown


def rewrite(documents: list[JsonObject], dialect: str) -> Shown:
    """MCP definitions in another dialect."""
    try:
        kept, refused = partition(dialect, [read_tool(document) for document in documents])
    except BadDocument as bad:
        raise CommandFailed(f"the server's definitions cannot be read: {bad.message}") from None
    written = written_in(dialect, kept) if kept else Written([], [])
    return Shown(written.documents, written.losses, refused)


class _Lost(msgspec.Struct):
    tool: str
    path: str
    reason: str


class _Page(msgspec.Struct):
    """One page of `GET /tools`."""

    dialect: str
    tools: list[JsonObject]
    losses: list[_Lost]
    refused: list[Unsayable] = []
    nextCursor: str | None = None  # noqa: N815 - as it is written


def _pages(endpoint: Endpoint, wanted: dict[str, str]) -> Iterator[_Page | None]:
    base = endpoint.path.removesuffix(MCP_PATH)
    cursor: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        place = msgspec.structs.replace(endpoint, path=f"{base}/tools?{urlencode(wanted | cursor)}")
        with Exchange(place, LIST_SECONDS) as exchange:
            exchange.send("GET", {"Accept": "application/json"})
            said = next(exchange.messages(), None)
        try:
            page = msgspec.convert(said, _Page)
        except msgspec.ValidationError:  # another kind of server
            yield None
            return
        yield page
        if page.nextCursor is None:
            return
        cursor = {"cursor": page.nextCursor}
