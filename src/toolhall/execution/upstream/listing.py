"""`fetch_listing`: all lists of an upstream, every page, within bounds; a list that fails half way is no list."""

import asyncio

import msgspec

from toolhall.dialects.mcp.client_results import ListReader
from toolhall.dialects.mcp.protocol import METHOD_NOT_FOUND
from toolhall.mcp_client.session import Headers, McpRequest, McpSession, RequestLost, RpcError
from toolhall.model.json import JsonObject
from toolhall.model.upstream import UpstreamListing, UpstreamSettings

PAGE_SECONDS = 30.0
_MAX_INSTRUCTIONS = 64 * 1024
_LISTS = (
    ("tools", "tools/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
    ("prompts", "prompts/list"),
)


class FetchedListing(msgspec.Struct, frozen=True):
    """What an upstream lists, and when to look again."""

    listing: UpstreamListing
    ttl: float | None = None  # seconds for which the upstream says that its lists are fresh
    tells_changes: bool = False  # it announces changes of each list that it has


async def fetch_listing(session: McpSession, settings: UpstreamSettings, credentials: Headers = ()) -> FetchedListing:
    """Fetch every list that the server has; raises Malformed, or the errors of the session."""
    server = session.server
    found: dict[str, list[JsonObject]] = {}
    ttls: list[float] = []
    is_shared = tells = True
    for capability, method in _LISTS:
        if not server.has(capability):
            continue
        tells = tells and server.has(capability, "listChanged")
        reader = ListReader(method)
        if await _read_all(session, reader, credentials):
            found[method] = reader.items
            is_shared = is_shared and reader.is_shared
            if reader.ttl is not None and server.revision.stateless:
                ttls.append(reader.ttl)
    listing = UpstreamListing(
        tools=tuple(found.get("tools/list", ())),
        resources=tuple(found.get("resources/list", ())),
        templates=tuple(found.get("resources/templates/list", ())),
        prompts=tuple(found.get("prompts/list", ())),
        server_name=server.name or None,
        server_version=server.version or None,
        instructions=server.instructions[:_MAX_INSTRUCTIONS] if server.instructions else None,
        revision=server.revision.name,
        completes=server.has("completions"),
        shared=is_shared and settings.auth != "oauth",
    )
    tells = tells and getattr(session, "hears_changes", True)  # known by now; pipes always carry them
    return FetchedListing(listing, min(ttls) if ttls else None, tells and bool(found))


async def _read_all(session: McpSession, reader: ListReader, credentials: Headers) -> bool:
    """Read all pages; False if the server has no such list, although it declares the capability."""
    cursor: str | None = None
    while True:
        params: JsonObject = {} if cursor is None else {"cursor": cursor}
        request = McpRequest(method=reader.method, params=params, credentials=credentials)
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                page = await session.request(request)
        except TimeoutError:
            raise RequestLost(f"it did not answer {reader.method} within {PAGE_SECONDS:g} seconds") from None
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND and cursor is None:
                return False
            raise
        cursor = reader.add(page)
        if cursor is None:
            return True
