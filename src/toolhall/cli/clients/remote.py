"""RemoteToolClient: tools of a server at a URL, over MCP and, where it is a hall, its own listings."""

import logging
import shlex
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from toolhall.cli.clients.base import (
    CallResult,
    CallUI,
    RenderedTools,
    RevisionNotSupported,
    ToolInfo,
    read_call_result,
    read_tool_info,
    with_all_versions,
    with_unique_names,
)
from toolhall.cli.clients.http import MCP_PATH, Endpoint, HttpExchange, parse_endpoint, with_stated_path
from toolhall.cli.clients.management import open_management
from toolhall.cli.clients.mcp import (
    LIST_SECONDS,
    MAX_PAGES,
    RpcError,
    SessionMcpClient,
    StatelessMcpClient,
    fetch_tool_documents,
)
from toolhall.cli.errors import CommandError
from toolhall.cli.options import HallOptions
from toolhall.cli.output import note, visible
from toolhall.cli.progress import show_spinner
from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.convert.export import InexpressibleTool, partition_expressible, write_tools
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.catalog import ID_KEY, parse_tool_id, read_tool
from toolhall.dialects.mcp.protocol import REVISION_2025_11_25, REVISION_2026_07_28
from toolhall.model.json import JsonObject
from toolhall.model.names import SEARCH_TOOL
from toolhall.schema.cost import BadSchema
from toolhall.schema.defaults import Bind
from toolhall.schema.header_parameters import header_parameters


def fetch_rendered(endpoint: Endpoint, dialect: str, tool: str | None) -> RenderedTools | None:
    """What `GET /tools` says; None from a server that has no such listing."""
    if not endpoint.path.endswith(MCP_PATH):
        return None
    shown = RenderedTools([], [], [])
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


def render_from_mcp(documents: list[JsonObject], dialect: str) -> RenderedTools:
    """MCP definitions in another dialect."""
    try:
        kept, refused = partition_expressible(dialect, [read_tool(document) for document in documents])
    except BadDocument as bad:
        raise CommandError(f"the server's definitions cannot be read: {bad.message}") from None
    written = write_tools(dialect, kept) if kept else WriteResult([], [])
    return RenderedTools(written.documents, written.losses, refused)


class _LossRecord(msgspec.Struct):
    tool: str
    path: str
    reason: str


class _Page(msgspec.Struct):
    """One page of `GET /tools`."""

    dialect: str
    tools: list[JsonObject]
    losses: list[_LossRecord]
    refused: list[InexpressibleTool] = []
    nextCursor: str | None = None  # noqa: N815 - as it is written


def _pages(endpoint: Endpoint, wanted: dict[str, str]) -> Iterator[_Page | None]:
    base = endpoint.path.removesuffix(MCP_PATH)
    cursor: dict[str, str] = {}
    for _ in range(MAX_PAGES):
        place = msgspec.structs.replace(endpoint, path=f"{base}/tools?{urlencode(wanted | cursor)}")
        with HttpExchange(place, LIST_SECONDS) as exchange:
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


_NEXT_STEP = {
    "quarantined": "look at it with 'toolhall tool show {0}', then serve it with 'toolhall tool activate {0}'",
    "registered": "'toolhall tool activate {0}' serves it",
    "inactive": "'toolhall tool activate {0}' serves it again",
}


class _ManagedTool(msgspec.Struct):
    """What management tells of a tool, as far as it matters here."""

    id: str
    state: str
    served: bool = True
    effectiveLevel: int | None = None  # noqa: N815 - as it is written
    sunset: str | None = None
    successor: str | None = None


def unavailable_reason(options: HallOptions, name: str) -> str | None:
    """The hall's reason, and what to do; None from a server that knows no such tool, or cannot be asked."""
    known = _fetch_tool(options, name)
    if known is None:
        return None
    instead = f"; call {known.successor} instead" if known.successor else ""
    gone = f", and gone from {known.sunset} on" if known.sunset else ""
    if known.sunset and known.sunset <= time.strftime("%Y-%m-%d", time.gmtime()):
        return visible(f"{known.id} was retired on {known.sunset}{instead}")
    if known.state in _NEXT_STEP:
        # An id is what somebody else wrote: in a command it must stay one word. A query could hold a secret.
        where = (options.url or "").partition("?")[0]
        then = _NEXT_STEP[known.state].format(f"{shlex.quote(known.id)} --url {shlex.quote(where)}")
        return visible(f"{known.id} is {known.state}{gone}; {then}{instead}")
    if not known.served:
        return visible(f"{known.id} is {known.state}, but it is not among what is served there{gone}{instead}")
    return None


def _fetch_tool(hall: HallOptions, wanted: str) -> _ManagedTool | None:
    try:
        with open_management(hall) as desk:
            return msgspec.convert(desk.request_tool("GET", wanted), _ManagedTool)
    except CommandError:  # another kind of server
        return None


def served_ids(hall: HallOptions) -> set[str]:
    """The ids of everything that a hall serves; none from a server that cannot be asked."""
    return {known.id for known in _active_tools(hall) if known.served}


def levels_by_id(hall: HallOptions) -> dict[str, int]:
    """The levels that count for the tools of a hall; none from a server that cannot be asked."""
    return {known.id: known.effectiveLevel for known in _active_tools(hall) if known.effectiveLevel is not None}


def _active_tools(hall: HallOptions) -> list[_ManagedTool]:
    try:
        with open_management(hall) as desk:
            return msgspec.convert([*desk.list_tools({"state": "active"})], list[_ManagedTool])
    except (CommandError, msgspec.ValidationError, LookupError, TypeError):  # another kind of server
        return []


_MCP = "mcp@"
_NOT_FOUND_STATUSES = (404, 405)
_MAX_OLDER_VERSIONS = 1_000
_log = logging.getLogger("toolhall.cli")


class RemoteToolClient:
    """A connection to one server for the time of one command."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._hall_options = HallOptions(url=url, key=key)
        endpoint = parse_endpoint(url, key)
        with show_spinner(f"Connecting to {endpoint}"):
            self._endpoint, self._client = _connect(endpoint, with_stated_path(endpoint, url))
        self.where = str(self._endpoint)

    def tools(self) -> list[ToolInfo]:
        """Every tool that can be called; MCP 2026-07-28: one with a wrong `x-mcp-header` is left out."""
        with show_spinner(f"Listing the tools of {self.where}"):
            documents = fetch_tool_documents(self._client, versions=True)
        offers = _read_valid_tools(documents)
        if any(map(_is_search_tool, documents)):  # a hall with many tools shows few, and tells all when it is asked
            listed = {offer.key for offer in offers}
            offers += with_unique_names([offer for offer in self._unlisted_tools() if offer.key not in listed])
        return with_all_versions(offers)

    def with_levels(self, offers: list[ToolInfo]) -> list[ToolInfo]:
        """The same with the levels that count, as far as the server tells them to this caller."""
        with show_spinner(f"Listing the tools of {self.where}"):
            levels = levels_by_id(self._hall_options)
        if any(offer.effective_level is None and levels.get(offer.id or "") is None for offer in offers):
            note(f"{self.where} does not say which level counts for each tool; a hall tells it to who may manage tools")
        return [msgspec.structs.replace(offer, effective_level=levels.get(offer.id or "")) for offer in offers]

    def _unlisted_tools(self) -> list[ToolInfo]:
        """What clients would have to search for: the newest version of each, and the others one by one."""
        dialect = f"{_MCP}{self._client.revision}"
        with show_spinner(f"Listing the tools of {self.where}"):
            newest = fetch_rendered(self._endpoint, dialect, None)
            offers = _read_valid_tools(newest.documents) if newest else []
            older = sorted(served_ids(self._hall_options) - {offer.id for offer in offers})
            for tool_id in older[:_MAX_OLDER_VERSIONS]:
                found = fetch_rendered(self._endpoint, dialect, tool_id)
                offers += _read_valid_tools(found.documents) if found else []
        return offers

    def render(self, dialect: str, info: ToolInfo | None = None) -> RenderedTools:
        """Every tool, or this one, as the server itself writes it; an MCP revision as it is shown to its clients."""
        with show_spinner(f"Listing the tools of {self.where}"):
            if dialect.startswith(_MCP):
                listed = _filter_by_name(
                    info, self._list_in_revision(dialect.removeprefix(_MCP), versions=info is not None)
                )
                if listed or info is None:
                    return RenderedTools(listed, [])
            # All versions of a tool have one name in that listing.
            written = fetch_rendered(self._endpoint, dialect, (info.id or info.name) if info else None)
            return written or render_from_mcp(
                _filter_by_name(info, fetch_tool_documents(self._client, versions=info is not None)), dialect
            )

    def _list_in_revision(self, revision: str, *, versions: bool) -> list[JsonObject]:
        """What any client of this revision is shown, unless it asks for every version."""
        if revision == self._client.revision:
            return fetch_tool_documents(self._client, versions=versions)
        if revision == REVISION_2026_07_28.name:
            raise RevisionNotSupported(f"{self.where} does not speak MCP {revision}")
        other = SessionMcpClient(self._endpoint)
        try:
            other.initialize(revision, LIST_SECONDS)
            if other.revision != revision:
                raise RevisionNotSupported(f"{self.where} does not speak MCP {revision}")
            return fetch_tool_documents(other, versions=versions)
        finally:
            other.close()

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> CallResult:
        """Over the wire."""
        return read_call_result(self._client.call(info, arguments, ui, seconds))

    def argument_binding(self, info: ToolInfo) -> Bind | None:  # noqa: ARG002 - the server binds them
        """None: the server checks the arguments."""
        return None

    def asks_before(self, info: ToolInfo) -> bool:  # noqa: ARG002 - an approval is asked for elsewhere
        """False: a server does not ask at this terminal."""
        return False

    def print_warnings(self) -> None:
        """Nothing: warnings are for the author of the tools."""

    def unavailable_reason(self, name: str) -> str | None:
        """Why a tool that the hall knows is not served, by the hall's management API."""
        return unavailable_reason(self._hall_options, name)

    def close(self) -> None:
        """End the session, if there is one."""
        self._client.close()


def _is_search_tool(document: JsonObject) -> bool:
    meta = document.get("_meta")
    stated = parse_tool_id(meta.get(ID_KEY)) if isinstance(meta, dict) else None
    return stated == SEARCH_TOOL


def _filter_by_name(offer: ToolInfo | None, documents: list[JsonObject]) -> list[JsonObject]:
    return [document for document in documents if offer is None or document.get("name") == offer.name]


def _connect(endpoint: Endpoint, stated: Endpoint) -> tuple[Endpoint, StatelessMcpClient | SessionMcpClient]:
    """A client of the hall's endpoint, or where there is none of the server at the path that was stated."""
    try:
        return endpoint, _negotiate(endpoint)
    except RpcError as missing:
        if missing.status not in _NOT_FOUND_STATUSES or stated == endpoint:
            raise
        try:
            return stated, _negotiate(stated)
        except CommandError:
            raise missing from None


def _negotiate(endpoint: Endpoint) -> StatelessMcpClient | SessionMcpClient:
    modern = StatelessMcpClient(endpoint)
    try:
        if REVISION_2026_07_28.name in modern.discover(LIST_SECONDS):
            return modern
    except RpcError as error:
        # Any refusal may be an older server's way to say that it does not understand.
        if error.status in (401, 403) or error.status >= 500:
            raise
    legacy = SessionMcpClient(endpoint)
    legacy.initialize(REVISION_2025_11_25.name, LIST_SECONDS)
    return legacy


def _read_valid_tools(documents: list[JsonObject]) -> list[ToolInfo]:
    return [offer for offer in map(read_tool_info, documents) if offer is not None and _has_valid_headers(offer)]


def _has_valid_headers(offer: ToolInfo) -> bool:
    try:
        header_parameters(offer.input)
    except BadSchema as error:
        _log.warning("left out the tool %s: %s", offer.name, error)
        return False
    return True
