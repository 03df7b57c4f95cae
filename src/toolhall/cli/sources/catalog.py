"""The definitions of a server in any dialect: as it writes them itself, or else written here from what MCP shows."""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.sources.rpc import LIST_SECONDS, MOST_PAGES
from toolhall.cli.sources.wire import Endpoint, Exchange
from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.definition import read_tool
from toolhall.dialects.written import written_in
from toolhall.model.json import JsonObject

_MCP_PATH = "/mcp"


def fetch_written(endpoint: Endpoint, dialect: str, tool: str | None) -> Written | None:
    """What `GET /tools` says; None from a server that has no such listing."""
    if not endpoint.path.endswith(_MCP_PATH):
        return None
    written = Written([], [])
    wanted = {"dialect": dialect, **({"tool": tool} if tool else {})}
    for page in _pages(endpoint, wanted):
        if page is None:
            return None
        written.documents.extend(page["tools"])
        for loss in page["losses"]:
            prefix = "" if tool else f"/{loss['tool']}"
            written.losses.append(Loss(f"{prefix}{loss['path']}", loss["reason"]))
    return written


def rewrite(documents: list[JsonObject], dialect: str) -> Written:
    """MCP definitions in another dialect."""
    try:
        return written_in(dialect, [read_tool(document) for document in documents])
    except BadDocument as bad:
        raise CommandFailed(f"{dialect} cannot say this: {bad.message}") from None


def _pages(endpoint: Endpoint, wanted: dict[str, str]) -> Iterator[JsonObject | None]:
    base = endpoint.path.removesuffix(_MCP_PATH)
    cursor: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        place = msgspec.structs.replace(endpoint, path=f"{base}/tools?{urlencode(wanted | cursor)}")
        with Exchange(place, LIST_SECONDS) as exchange:
            status = exchange.send("GET", {"Accept": "application/json"})
            page = next(exchange.messages(), None)
        match page:
            case {"tools": list(), "losses": list(), "refused": [{"tool": tool, "reasons": [reason, *_]}, *_]}:
                raise CommandFailed(f"{wanted['dialect']} cannot say {tool}: {reason}")
            case {"dialect": str(), "tools": list(), "losses": list()} if status == 200:
                yield page
            case _:
                yield None
                return
        match page:
            case {"nextCursor": str(following)}:
                cursor = {"cursor": following}
            case _:
                return
