"""The REST API: `POST /tools/{toolkit}/{tool}`, `GET /tools` in any dialect, and `GET /openapi.json`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from email.utils import format_datetime
from urllib.parse import quote

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.base import WriteResult
from toolhall.dialects.catalogs import DIALECTS, READABLE_DIALECTS, writable_catalog
from toolhall.dialects.convert.export import partition_expressible, write_tools
from toolhall.dialects.error_details import error_text, result_json
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.model_apis.function import losses_by_tool
from toolhall.dialects.model_apis.openai import STRICT_DIALECTS
from toolhall.dialects.model_apis.openai_strict import drop_refused_nulls
from toolhall.dialects.openapi import catalog, hall_paths, paths
from toolhall.dialects.openapi.builders import with_wire_limits
from toolhall.dialects.openapi.catalog import INPUT_SUFFIX, OpenApiInfo
from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.openapi.reading_paths import reading_paths
from toolhall.http.call_context import NO_INTERACTION, respond
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.tasks import NeedsPreference, accepted_response, prefers_task, start_task
from toolhall.model.call_records import CONSOLE_SUFFIX
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import TASKS_FEATURE, Answer, CallTool, CompletedCall, TaskView, ToolPage, WireResponse
from toolhall.model.tool import Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.search import SnapshotSearch
from toolhall.registry.snapshot import Entry, Snapshot, ToolPages

DIALECT = "openapi"
TOOLS_PREFIX = "/tools/"
DEFAULT_DIALECT = "mcp"
CLIENT_HEADER = b"toolhall-client"  # by which the console names itself
_LIST_PARAMETERS = {"dialect", "query", "toolkit", "tool", "tag", "cursor"}


class RestEndpoint:
    """`POST /tools/{toolkit}/{tool}`: the body holds the arguments, the response the tool's value."""

    def __init__(self, dispatcher: Dispatcher, validator: RequestValidator, prefix: Callable[[], str] = str) -> None:
        self._dispatcher = dispatcher
        self._prefix = prefix  # the path that the hall is mounted at
        self._validator = validator

    def call(self, request: HttpRequest) -> Awaitable[None]:
        """Run one tool."""
        return respond(request, self._validator, self._respond, body_optional=True)

    async def _respond(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> WireResponse:
        answer = await self._answer(request, body, on_suspend)
        if isinstance(answer, TaskView):
            return accepted_response(answer, self._prefix())
        return _response(answer, self._prefix)

    async def _answer(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> Answer | TaskView:
        dispatcher, caller, size = self._dispatcher, request.caller, len(body)
        version = dialect = None
        recorded = DIALECT
        parts = request.path_segments(TOOLS_PREFIX)
        try:
            if len(parts) != 2:
                raise NotFound("there is no such tool; use /tools/TOOLKIT/TOOL")
            arguments, encoded = _arguments(body)
            if request.query:  # the console always names the version: other calls are not asked who makes them
                version, dialect = _call_options(request.parameters)
                recorded = recorded_dialect(request)
        except ToolhallError as error:
            return dispatcher.refuse(CallTool(".".join(parts), {}, DIALECT, size), caller, error)
        entry = dispatcher.registry.dialect_names.find(DIALECT, (parts[0], parts[1]), version)
        if entry is not None and dispatcher.policy.can_see(caller, entry.tool):
            if dialect is not None:
                arguments, encoded = drop_refused_nulls(arguments, entry.input_validator, size), None
            call = CallTool(entry.id, arguments, recorded, size, None, None, None, encoded)
            if entry.tool.task is not None and prefers_task(request):
                return await start_task(dispatcher, call, caller, on_suspend)
            return await dispatcher.answer(call, caller, NO_INTERACTION, on_suspend)
        name = ".".join(parts) + ("" if version is None else f"@{version}")
        call = CallTool(name, arguments, recorded, size, None, None, None, encoded)
        answer = await dispatcher.answer(call, caller, NO_INTERACTION, on_suspend)
        return NotFound(f"{answer.message}; GET /tools lists them") if type(answer) is NotFound else answer


def _arguments(body: bytes) -> tuple[JsonObject, bytes | None]:
    """Return the arguments, and as JSON if they were encoded to check them."""
    arguments, encoded = strict_json.decode_and_encode(body) if body else ({}, None)
    if isinstance(arguments, dict):
        return arguments, encoded
    raise Malformed("the body must be an object with the tool's arguments")


def _call_options(parameters: dict[str, str]) -> tuple[str | None, str | None]:
    """Return version and dialect of the query; Malformed for other parameters, which would be ignored silently."""
    version, dialect = parameters.get("version"), parameters.get("dialect")
    if version == "":
        raise Malformed("version is empty; name one such as 1.0.0, or leave it out for the newest")
    if dialect not in (None, *STRICT_DIALECTS):
        raise Malformed(f"dialect must be {' or '.join(STRICT_DIALECTS)}, or left out for plain arguments")
    if not parameters.keys() <= {"version", "dialect"}:
        raise Malformed("the query takes version and dialect only; the tool's arguments belong into the body")
    return version, dialect


def _deprecation_headers(tool: Tool, prefix: Callable[[], str]) -> tuple[tuple[bytes, bytes], ...]:
    """Return Deprecation (RFC 9745), Sunset (RFC 8594) and a successor-version Link (RFC 5829) of a tool."""
    if tool.deprecation is None:
        return ()
    headers = [(b"deprecation", b"@%d" % tool.deprecation.since)] if tool.deprecation.since is not None else []
    if tool.deprecation.sunset is not None:
        day = datetime.combine(date.fromisoformat(tool.deprecation.sunset), datetime.min.time(), UTC)
        headers.append((b"sunset", format_datetime(day, usegmt=True).encode()))
    if tool.deprecation.successor is not None:
        key, _, version = tool.deprecation.successor.partition("@")
        path = "/".join(quote(part, safe="") for part in key.rpartition(".")[::2])
        query = f"?version={quote(version, safe='')}" if version else ""
        headers.append((b"link", f'<{prefix()}{TOOLS_PREFIX}{path}{query}>; rel="successor-version"'.encode()))
    return tuple(headers)


def _response(answer: Answer, prefix: Callable[[], str]) -> WireResponse:
    if isinstance(answer, CompletedCall):
        if answer.result.is_error:
            return write_error(ToolFailed(error_text(answer)))
        value = answer.result.encoded  # None for a tool that returned content, or nothing
        body = result_json(answer) if value is None else value
        return WireResponse(body, headers=_deprecation_headers(answer.tool, prefix))
    if isinstance(answer, Unsupported) and answer.feature == TASKS_FEATURE:
        return write_error(NeedsPreference())
    if isinstance(answer, ToolhallError):
        return write_error(answer)
    raise TypeError("REST has no way to ask a caller back")


class ToolListEndpoint:
    """`GET /tools`: the tools that the caller may see, as documents of a dialect."""

    def __init__(self, dispatcher: Dispatcher, page_size: int) -> None:
        self._dispatcher = dispatcher
        self._page_size = page_size
        self._search = SnapshotSearch()

    async def __call__(self, request: HttpRequest) -> None:
        """Send one page."""
        try:
            wire = WireResponse(encode(self._page(request)))
        except ToolhallError as error:
            wire = write_error(error)
        await request.reply(wire)

    def _page(self, request: HttpRequest) -> JsonObject:
        parameters = request.parameters
        check_parameters(parameters, _LIST_PARAMETERS)
        dialect = writable_catalog(parameters.get("dialect", DEFAULT_DIALECT)).name
        matches = (
            entry for entry in self._ranked(request.caller, parameters.get("query")) if _matches(entry.tool, parameters)
        )
        page = page_at(Snapshot(matches, self._page_size).pages, parameters.get("cursor"))
        more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
        return {"dialect": dialect, **_render(dialect, page.tools), **more}

    def _ranked(self, caller: Caller, query: str | None) -> Sequence[Entry]:
        """Return all visible tools, or the matches of a query, best first."""
        view = self._dispatcher.visible_snapshot(caller)
        if not query:
            return view.entries
        visible = {entry.tool.id: entry for entry in view.entries}
        matches = self._search.find(
            self._dispatcher.registry.snapshot, query, len(visible), lambda tool: tool.id in visible
        )
        return [visible[tool.id] for tool in matches]


def check_parameters(parameters: Mapping[str, str], known: Collection[str]) -> None:
    """Raise Malformed for a parameter of the query that is not known, which would be ignored silently."""
    unknown = min(parameters.keys() - set(known), default=None)
    if unknown is not None:
        use = f"use {', '.join(sorted(known))}" if known else "send none"
        raise Malformed(f"there is no parameter {unknown[:32]!r}; {use}")


def page_at(pages: ToolPages, cursor: str | None) -> ToolPage:
    """Return the page of a cursor; NotFound for an unknown cursor."""
    try:
        return pages.page(cursor)
    except Malformed as error:
        raise NotFound(error.message) from None  # in REST, a page that does not exist


def recorded_dialect(request: HttpRequest) -> str:
    """Return what the records of a call name as its dialect: REST, by a program or by the console."""
    return DIALECT + CONSOLE_SUFFIX if request.headers.get(CLIENT_HEADER) == b"console" else DIALECT


def _render(dialect: str, tools: Sequence[Tool]) -> JsonObject:
    """Return the documents; tools that the dialect cannot express (OpenAI's strict mode) are listed with reasons."""
    try:
        return _documents(dialect, tools)
    except BadDocument:
        expressible, refused = partition_expressible(dialect, tools)
        return {**_documents(dialect, expressible), "refused": refused}


def _documents(dialect: str, tools: Sequence[Tool]) -> JsonObject:
    written = write_tools(dialect, tools) if tools else WriteResult([], [])
    losses = [
        {"tool": tools[number].name, "path": loss.path, "reason": loss.reason}
        for number, loss in losses_by_tool(written.losses, len(tools))
    ]
    return {"tools": written.documents, "losses": losses}


def _matches(tool: Tool, query: dict[str, str]) -> bool:
    """Whether the tool fits the filters by toolkit, tool and tag."""
    if query.get("toolkit", tool.id.toolkit) != tool.id.toolkit:
        return False
    if query.get("tool", tool.name) not in (tool.name, str(tool.id), f"{tool.id.toolkit}.{tool.id.tool}"):
        return False
    return "tag" not in query or query["tag"] in tool.tags


class OpenApiEndpoint:
    """`GET /openapi.json`: the operations of the hall and of every tool; encoded once per snapshot."""

    def __init__(self, dispatcher: Dispatcher, info: OpenApiInfo, prefix: Callable[[], str] = str) -> None:
        self._dispatcher = dispatcher
        self._prefix = prefix  # the path that the hall is mounted at
        self._info = info

    async def __call__(self, request: HttpRequest) -> None:
        """Send the document; management operations are for those who may read them."""
        view = self._dispatcher.visible_snapshot(request.caller)
        manages = self._dispatcher.admin.may_observe(request.caller)
        prefix = self._prefix()
        key = f"{catalog.name}, {paths.MANAGEMENT_TAG['name']}" if manages else catalog.name
        key = f"{key} {prefix}" if prefix else key
        body = view.encoded.get(key)
        if body is None:
            body = view.encoded[key] = encode(self._document(_default_versions(view), prefix, manages=manages))
        await request.reply(WireResponse(body))

    def _document(self, tools: tuple[Tool, ...], prefix: str, *, manages: bool) -> JsonObject:
        info = msgspec.structs.replace(self._info, servers=(prefix,)) if prefix else self._info
        (document,) = catalog.write(tools, info).documents
        schemas = document["components"]["schemas"]
        for name in schemas:
            if name.endswith(INPUT_SUFFIX):
                schemas[name] = with_wire_limits(schemas[name])
        document["tags"].append(hall_paths.HALL_TAG)
        document["paths"] |= hall_paths.hall_paths(DIALECTS) | reading_paths()
        if manages:
            document["tags"].append(paths.MANAGEMENT_TAG)
            document["paths"] |= paths.management_paths(READABLE_DIALECTS)
            schemas |= paths.MANAGEMENT_SCHEMAS
        return document


def _default_versions(view: Snapshot) -> tuple[Tool, ...]:
    """Return the versions that a call without a version reaches."""
    return tuple(entry.tool for entry in view.listed)
