"""RemoteToolClient: what a server at a URL serves, over MCP; of a hall also by its listing and management API."""

import logging
import shlex
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from urllib.parse import urlencode

import msgspec

from toolhall.cli.clients.base import (
    CallResult,
    CallUI,
    DescribedT,
    RenderedTools,
    RevisionNotSupported,
    ToolInfo,
    UnknownResource,
    read_call_result,
    read_tool_info,
    with_all_versions,
    with_unique_names,
)
from toolhall.cli.clients.descriptions import (
    PromptDescription,
    ResourceDescription,
    describe_prompt,
    describe_resource,
)
from toolhall.cli.clients.http import MCP_PATH, Endpoint, HttpExchange, parse_endpoint, with_stated_path
from toolhall.cli.clients.management import open_management
from toolhall.cli.clients.mcp import (
    LIST_SECONDS,
    McpConnection,
    ServerRefused,
    fetch_documents,
    fetch_other_documents,
    fetch_tool_documents,
)
from toolhall.cli.errors import CommandError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.output import note, visible
from toolhall.cli.progress import show_spinner
from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.convert.export import InexpressibleTool, partition_expressible, write_tools
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.catalog import ID_KEY, parse_tool_id, read_tool
from toolhall.dialects.mcp.protocol import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    REVISION_2026_07_28,
)
from toolhall.model.json import JsonObject
from toolhall.model.names import SEARCH_TOOL
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema
from toolhall.schema.defaults import Bind

_MCP = "mcp@"
_NOT_FOUND_STATUSES = (404, 405)
_UNKNOWN_RESOURCE_CODES = (RESOURCE_NOT_FOUND, INVALID_PARAMS)  # of the older revisions, and of 2026-07-28
_MAX_OLDER_VERSIONS = 1_000
_MAX_PAGES = 1_000
_NEXT_STEP = {
    "quarantined": "look at it with 'toolhall tool show {0}', then serve it with 'toolhall tool activate {0}'",
    "registered": "'toolhall tool activate {0}' serves it",
    "withheld": "its upstream does not offer it now; it is served again once that does",
    "inactive": "'toolhall tool activate {0}' serves it again",
}

_log = logging.getLogger("toolhall.cli")


class RemoteToolClient:
    """A ToolClient of one server, for the time of one command."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._hall_options = HallOptions(url=url, key=key)
        endpoint = parse_endpoint(url, key)
        with show_spinner(f"Connecting to {endpoint}"):
            self._endpoint, self._client = _connect(endpoint, with_stated_path(endpoint, url))
        self.where = str(self._endpoint)

    def tools(self) -> list[ToolInfo]:
        """All tools that can be called; one with an invalid `x-mcp-header` is left out, as MCP 2026-07-28 demands."""
        with show_spinner(f"Listing the tools of {self.where}"):
            documents = fetch_tool_documents(self._client, versions=True)
        tools = _read_valid_tools(documents)
        if any(map(_is_search_tool, documents)):  # the hall lists few of its many tools
            listed = {info.key for info in tools}
            tools += with_unique_names([info for info in self._unlisted_tools() if info.key not in listed])
        return with_all_versions(tools)

    def with_levels(self, described: list[DescribedT]) -> list[DescribedT]:
        """The same with their effective levels, as far as the server shows them to this caller."""
        if not described:
            return described
        levels = self._levels
        unknown = [each for each in described if each.effective_level is None and levels.get(each.id or "") is None]
        if unknown and isinstance(unknown[0], ToolInfo):
            note(f"{self.where} does not say which level counts for each tool; a hall tells it to who may manage tools")
        return [msgspec.structs.replace(each, effective_level=levels.get(each.id or "")) for each in described]

    @cached_property
    def _levels(self) -> dict[str, int]:
        with show_spinner(f"Listing the tools of {self.where}"):
            return levels_by_id(self._hall_options)

    def _unlisted_tools(self) -> list[ToolInfo]:
        """The tools that clients find by search only: the newest version of each, then all others, one request each."""
        dialect = f"{_MCP}{self._client.revision}"
        with show_spinner(f"Listing the tools of {self.where}"):
            newest = fetch_rendered(self._endpoint, dialect, None)
            tools = _read_valid_tools(newest.documents) if newest else []
            older = sorted(served_ids(self._hall_options) - {info.id for info in tools})
            for tool_id in older[:_MAX_OLDER_VERSIONS]:
                found = fetch_rendered(self._endpoint, dialect, tool_id)
                tools += _read_valid_tools(found.documents) if found else []
        return tools

    def render(self, dialect: str, info: ToolInfo | None = None) -> RenderedTools:
        """All tools, or this one, as the server writes them; an MCP revision as its clients see it."""
        with show_spinner(f"Listing the tools of {self.where}"):
            if dialect.startswith(_MCP):
                listed = _filter_by_name(
                    info, self._list_in_revision(dialect.removeprefix(_MCP), versions=info is not None)
                )
                if listed or info is None:
                    return RenderedTools(listed, [])
            # By id, because all versions of a tool have one name in that listing.
            rendered = fetch_rendered(self._endpoint, dialect, (info.id or info.name) if info else None)
            return rendered or render_from_mcp(
                _filter_by_name(info, fetch_tool_documents(self._client, versions=info is not None)), dialect
            )

    def resources_and_prompts(self, revision: str) -> list[JsonObject]:
        """The definitions of all resources, templates and prompts, as a client of this revision of MCP sees them."""
        with show_spinner(f"Listing the resources and prompts of {self.where}"), self._in_revision(revision) as client:
            return fetch_other_documents(client)

    def _list_in_revision(self, revision: str, *, versions: bool) -> list[JsonObject]:
        """The definitions that a client of this revision gets; with `versions` also older versions."""
        with self._in_revision(revision) as client:
            return fetch_tool_documents(client, versions=versions)

    @contextmanager
    def _in_revision(self, revision: str) -> Generator[McpConnection, None, None]:
        """A client of this revision; raises RevisionNotSupported."""
        if revision == self._client.revision:
            yield self._client
            return
        if revision == REVISION_2026_07_28.name:
            raise RevisionNotSupported(f"{self.where} does not speak MCP {revision}")
        other = McpConnection(self._endpoint, revision)
        try:
            if other.revision != revision:
                raise RevisionNotSupported(f"{self.where} does not speak MCP {revision}")
            yield other
        finally:
            other.close()

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> CallResult:
        """Call a tool over MCP."""
        return read_call_result(self._client.call(info, arguments, ui, seconds))

    def resources(self) -> list[ResourceDescription]:
        """All listed resources and URI templates, if the server serves any."""
        documents = self._fetch("resources", "resources/list")
        documents += self._fetch("resources", "resources/templates/list")
        described = (describe_resource({f"{_MCP}{self._client.revision}": document}) for document in documents)
        return [each for each in described if each is not None]

    def prompts(self) -> list[PromptDescription]:
        """All prompts, if the server serves any."""
        documents = self._fetch("prompts", "prompts/list")
        described = (describe_prompt({f"{_MCP}{self._client.revision}": document}) for document in documents)
        return [each for each in described if each is not None]

    def _fetch(self, capability: str, method: str) -> list[JsonObject]:
        if capability not in self._client.capabilities:
            return []
        with show_spinner(f"Listing the {capability} of {self.where}"):
            return fetch_documents(self._client, method)

    def read_resource(self, uri: str, ui: CallUI, seconds: float) -> JsonObject:
        """Read a resource over MCP."""
        self._require("resources", "resource to read")
        try:
            return self._client.interact("resources/read", {"uri": uri}, ui, seconds)
        except ServerRefused as refused:
            if refused.rpc_code not in _UNKNOWN_RESOURCE_CODES:
                raise
            raise UnknownResource(refused.message) from None

    def get_prompt(self, name: str, arguments: dict[str, str], ui: CallUI, seconds: float) -> JsonObject:
        """Get a prompt over MCP."""
        self._require("prompts", "prompt")
        return self._client.interact("prompts/get", {"name": name, "arguments": arguments}, ui, seconds)

    def _require(self, capability: str, what: str) -> None:
        if capability not in self._client.capabilities:
            raise CommandError(f"{self.where} has no {what}; 'toolhall list --url {self.where}' shows what it has")

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


def fetch_rendered(endpoint: Endpoint, dialect: str, tool: str | None) -> RenderedTools | None:
    """The tools by `GET /tools` of a hall; None if the server has no such listing."""
    if not endpoint.path.endswith(MCP_PATH):
        return None
    rendered = RenderedTools([], [], [])
    query = {"dialect": dialect, **({"tool": tool} if tool else {})}
    for page in _pages(endpoint, query):
        if page is None:
            return None
        rendered.documents.extend(page.tools)
        rendered.losses.extend(
            Loss(loss.path if tool else f"/{loss.tool}{loss.path}", loss.reason) for loss in page.losses
        )
        rendered.refused.extend(page.refused)
    return rendered


def render_from_mcp(documents: list[JsonObject], dialect: str) -> RenderedTools:
    """MCP definitions in another dialect."""
    try:
        expressible, refused = partition_expressible(dialect, [read_tool(document) for document in documents])
    except BadDocument as bad:
        raise CommandError(f"the server's definitions cannot be read: {bad.message}") from None
    written = write_tools(dialect, expressible) if expressible else WriteResult([], [])
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


def _pages(endpoint: Endpoint, query: dict[str, str]) -> Iterator[_Page | None]:
    base = endpoint.path.removesuffix(MCP_PATH)
    cursor: dict[str, str] = {}
    for _ in range(_MAX_PAGES):
        page_endpoint = msgspec.structs.replace(endpoint, path=f"{base}/tools?{urlencode(query | cursor)}")
        with HttpExchange(page_endpoint, LIST_SECONDS) as exchange:
            exchange.send("GET", {"Accept": "application/json"})
            response = next(exchange.messages(), None)
        try:
            page = msgspec.convert(response, _Page)
        except msgspec.ValidationError:  # another kind of server
            yield None
            return
        yield page
        if page.nextCursor is None:
            return
        cursor = {"cursor": page.nextCursor}


class _ManagedTool(msgspec.Struct):
    """A tool as the management API describes it, as far as it matters here."""

    id: str
    state: str
    served: bool = True
    origin: str = "code"
    effectiveLevel: int | None = None  # noqa: N815 - as it is written
    sunset: str | None = None
    successor: str | None = None


def unavailable_reason(options: HallOptions, name: str) -> str | None:
    """Why the hall does not serve this tool, and what to do; None if it does not know it or has no management API."""
    known = _fetch_tool(options, name)
    if known is None:
        return None
    instead = f"; call {known.successor} instead" if known.successor else ""
    gone = f", and gone from {known.sunset} on" if known.sunset else ""
    if known.sunset and known.sunset <= time.strftime("%Y-%m-%d", time.gmtime()):
        return visible(f"{known.id} was retired on {known.sunset}{instead}")
    if known.state in _NEXT_STEP:
        # Quoted, because the id is foreign text; without the query, which could hold a secret.
        where = (options.url or "").partition("?")[0]
        then = _NEXT_STEP[known.state].format(f"{shlex.quote(known.id)} --url {shlex.quote(where)}")
        return visible(f"{known.id} is {known.state}{gone}; {then}{instead}")
    if not known.served and known.origin == "upstream":
        name, where = shlex.quote(known.id.partition(".")[0]), (options.url or "").partition("?")[0]
        return visible(
            f"{known.id} is not offered, because its upstream is switched off or not there any more; 'toolhall upstream"
            f" on {name} --url {shlex.quote(where)}' offers it again"
        )
    if not known.served:
        return visible(f"{known.id} is {known.state}, but it is not among what is served there{gone}{instead}")
    return None


def _fetch_tool(hall: HallOptions, tool: str) -> _ManagedTool | None:
    try:
        with open_management(hall) as client:
            return msgspec.convert(client.request_tool("GET", tool), _ManagedTool)
    except CommandError:  # another kind of server
        return None


def served_ids(hall: HallOptions) -> set[str]:
    """The ids of all tools that a hall serves; none from a server without a management API."""
    return {known.id for known in _active_tools(hall) if known.served}


def levels_by_id(hall: HallOptions) -> dict[str, int]:
    """The effective levels of a hall's tools; none from a server without a management API."""
    return {known.id: known.effectiveLevel for known in _active_tools(hall) if known.effectiveLevel is not None}


def _active_tools(hall: HallOptions) -> list[_ManagedTool]:
    try:
        with open_management(hall) as client:
            return msgspec.convert([*client.list_tools({"state": "active"})], list[_ManagedTool])
    except (CommandError, msgspec.ValidationError, LookupError, TypeError):  # another kind of server
        return []


def _is_search_tool(document: JsonObject) -> bool:
    meta = document.get("_meta")
    stated = parse_tool_id(meta.get(ID_KEY)) if isinstance(meta, dict) else None
    return stated == SEARCH_TOOL


def _filter_by_name(info: ToolInfo | None, documents: list[JsonObject]) -> list[JsonObject]:
    return [document for document in documents if info is None or document.get("name") == info.name]


def _connect(endpoint: Endpoint, stated: Endpoint) -> tuple[Endpoint, McpConnection]:
    """Connect to the /mcp endpoint of a hall, or if there is none, to the path exactly as stated."""
    try:
        return endpoint, McpConnection(endpoint)
    except ServerRefused as missing:
        if missing.status not in _NOT_FOUND_STATUSES or stated == endpoint:
            raise
        try:
            return stated, McpConnection(stated)
        except CommandError:
            raise missing from None


def _read_valid_tools(documents: list[JsonObject]) -> list[ToolInfo]:
    return [info for info in map(read_tool_info, documents) if info is not None and _has_valid_headers(info)]


def _has_valid_headers(info: ToolInfo) -> bool:
    try:
        header_parameters(info.input)
    except BadSchema as error:
        _log.warning("left out the tool %s: %s", info.name, error)
        return False
    return True
