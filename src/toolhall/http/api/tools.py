"""`/api/tools` and `/api/history`: list, inspect, register and change tools; `ManagementApi` has all routes.

`ToolQueries` reads, `ToolChanges` changes. Pages are ordered by id, so that additions and removals between two
pages neither skip nor repeat a tool.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from http import HTTPMethod
from itertools import chain, islice
from typing import Any, TypeAlias, cast

import msgspec

from toolhall.contracts.semver import ChangeKind
from toolhall.dialects import strict_json
from toolhall.dialects.catalogs import READABLE_DIALECTS, detect_dialect, readable_catalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.lint.linter import Linter
from toolhall.dialects.openapi.paths import BEHAVIOURS
from toolhall.http.api.access import GrantsApi, KeysApi
from toolhall.http.api.audit import AuditApi, CallerReport
from toolhall.http.api.base import (
    TOOL_PREFIX,
    ActivateBody,
    DeprecateBody,
    EmptyBody,
    ManagementContext,
    error_response,
    iso_time,
    json_response,
    limit_parameter,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import effective_level
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.model.versions import precedence
from toolhall.registration.records import CODE_DIALECT, RegistrationSource, tool_from_record
from toolhall.registration.service import RegistrationService
from toolhall.stores.tools import ToolEvent, ToolRecord, ToolState

MAX_FINDINGS = 1_000
PAGE_BYTES = 4 * 1024 * 1024
LIST_PARAMETERS = ("state", "toolkit", "cursor")
TOOL_STATES: tuple[ToolState, ...] = ("registered", "quarantined", "active", "inactive")
# What is done with one tool: the tool's id is the second argument.
ToolAction: TypeAlias = Callable[[HttpRequest, str], Coroutine[Any, Any, WireResponse]]
_ITSELF = ""


def tool_summary(record: ToolRecord, registration: RegistrationService) -> JsonObject:
    """One tool, without its document."""
    return _tool_summary(record, record.document_digest, registration)


def tool_summaries(records: Iterable[ToolRecord], registration: RegistrationService) -> Iterator[JsonObject]:
    """One for each; the tools of one document come together, and its digest is made once."""
    document, digest = b"", ""
    for kept in records:
        if kept.document is not document:
            document, digest = kept.document, kept.document_digest
        yield _tool_summary(kept, digest, registration)


def _tool_summary(record: ToolRecord, digest: str, registration: RegistrationService) -> JsonObject:
    tool = registration.tool(record)
    return {
        "id": record.id,
        "toolkit": record.toolkit,
        "tool": record.tool,
        "version": record.version,
        "name": tool.name,
        "title": tool.title,
        "state": record.state,
        "origin": record.origin,
        "originDetail": record.origin_detail,
        "by": record.by,
        "registeredAt": iso_time(record.registered_at),
        "changedAt": iso_time(record.changed_at),
        "deprecatedAt": None if record.deprecated_at is None else iso_time(record.deprecated_at),
        "sunset": record.sunset,
        "successor": record.successor,
        "dialect": record.dialect,
        "digests": {"shown": record.shown_digest, "contract": record.contract_digest, "document": digest},
        "served": registration.is_served(record),
        "effectiveLevel": effective_level(tool, registration.level_overrides),
    }


def event_json(event: ToolEvent) -> JsonObject:
    """One line of a history."""
    return {
        "at": iso_time(event.at),
        "by": event.by,
        "id": event.id,
        "what": event.what,
        "detail": event.detail,
    }


def record_findings(record: ToolRecord, other_names: Collection[str]) -> list[JsonObject]:
    """What lint says of a tool's document; a tool of the operator's own code is looked at as MCP shows it."""
    if record.dialect == CODE_DIALECT:
        mcp = readable_catalog("mcp")
        return lint_findings(lossless.write((tool_from_record(record),), mcp), mcp.name, other_names)
    return lint_findings(strict_json.decode(record.document), record.dialect, other_names)


def lint_findings(document: Json, dialect: str, other_names: Collection[str]) -> list[JsonObject]:
    """What lint says of a document, whose every text a model may get to read beside tools of these names."""
    linter = Linter[None](dialect)
    found = chain(linter.lint(document, "", None), (each for _, each in linter.finish(other_names)))
    return [msgspec.structs.asdict(each) for each in islice(found, MAX_FINDINGS)]


class ToolPager:
    """Sorted once for each change."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: tuple[ToolRecord, ...] = ()
        self._sorted: list[ToolRecord] = []
        self._ids: list[str] = []

    def page(self, registration: RegistrationService, parameters: dict[str, str]) -> JsonObject:
        """One page of summaries; a cursor is the id of the last one seen."""
        if parameters.get("state", TOOL_STATES[0]) not in TOOL_STATES:
            raise Malformed(f"there is no such state; use one of {', '.join(TOOL_STATES)}")
        self._sort(registration.all_records)
        chosen: list[msgspec.Raw] = []
        size, last = 0, ""
        for told in tool_summaries(self._matching(parameters), registration):
            written = encode(told)
            size += len(written)
            if chosen and (len(chosen) == self._size or size > PAGE_BYTES):
                return {"tools": chosen, "nextCursor": last}
            chosen.append(msgspec.Raw(written))
            last = told["id"]
        return {"tools": chosen}

    def _sort(self, known: tuple[ToolRecord, ...]) -> None:
        if known != self._known:  # quick: what is the same is the same object
            self._known = known
            self._sorted = sorted(known, key=lambda kept: kept.id)
            self._ids = [kept.id for kept in self._sorted]

    def _matching(self, parameters: dict[str, str]) -> Iterator[ToolRecord]:
        state, toolkit = parameters.get("state"), parameters.get("toolkit")
        for number in range(bisect_right(self._ids, parameters.get("cursor", "")), len(self._sorted)):
            kept = self._sorted[number]
            if state in (None, kept.state) and toolkit in (None, kept.toolkit):
                yield kept


class ToolQueries:
    """For callers who may manage the hall; to all others it says no, whatever they ask for."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context
        self._registration = context.registration
        self._pages = ToolPager(context.page_size)

    async def page(self, request: HttpRequest) -> WireResponse:
        """`GET /api/tools`."""
        self._context.require_admin(request.caller)
        return json_response(self._pages.page(self._registration, query_parameters(request, LIST_PARAMETERS)))

    async def tool(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}`: with its document as it came, and all that lint says of it."""
        self._context.require_admin(request.caller)
        query_parameters(request)
        kept = self._registration.find(tool_id)
        # A large document takes a while to look through, and the hall has others to serve.
        findings = await asyncio.to_thread(record_findings, kept, self._registration.published_names)
        document = msgspec.Raw(kept.document)
        versions = self._versions(kept)
        return json_response(
            {**tool_summary(kept, self._registration), "document": document, "findings": findings, "versions": versions}
        )

    async def history(self, request: HttpRequest, tool_id: str | None = None) -> WireResponse:
        """`GET /api/history`, or that of one tool, which outlives it."""
        self._context.require_admin(request.caller)
        limit = limit_parameter(query_parameters(request, ("limit",)))
        events = await self._registration.history(tool_id, limit)
        if tool_id is not None and not events:
            known = self._registration.find(
                tool_id
            )  # by a published name; or it says that there is none, and what to do
            events = await self._registration.history(known.key, limit)
        return json_response({"events": [event_json(each) for each in events]})

    async def callers(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}/callers`: who called it; without a version, who called any of them."""
        self._context.require_admin(request.caller)
        query_parameters(request)
        found = CallerReport()
        await self._context.journal.read(tool_id, found.add)
        told = found.to_json()
        if not told["callers"]:
            self._registration.find(tool_id)
        return json_response(told)

    def _versions(self, record: ToolRecord) -> list[JsonObject]:
        """All versions of the tool, the newest first."""
        same = [each for each in self._registration.all_records if each.key == record.key]
        same.sort(key=lambda each: precedence(each.version), reverse=True)
        return [{"id": each.id, "state": each.state} for each in same]


class ToolChanges:
    """Reads what is asked for, and has it done by the hall's own door for changes."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._registration = context.registration
        self._validator = validator

    async def register(self, request: HttpRequest) -> WireResponse:
        """`POST /api/tools`: a definition, in the dialect that is named or that it looks like."""
        asked = query_parameters(request, ("dialect", "behaviour"))
        stated, behaviour = asked.get("dialect"), _behaviour(asked.get("behaviour"))
        dialect = None if stated is None else readable_catalog(stated).name
        document = await read_json(request, self._validator)

        async def apply() -> tuple[ToolRecord, ...]:
            source = self._source(request, behaviour)
            return await self._registration.register(document, dialect or _detect_dialect(document), source)

        what = f"register {_declared_name(document)}"
        kept = await self._context.change(what, document, request.caller, apply)
        beside = self._registration.published_names
        found = await asyncio.to_thread(lint_findings, document, kept[0].dialect, beside)  # others are served meanwhile
        return json_response({"tools": list(tool_summaries(kept, self._registration)), "findings": found}, 201)

    async def activate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/activate`: serve it; what was quarantined only by who has seen its text."""
        query_parameters(request)
        given = await read_json(request, self._validator)
        seen, by = parse_body(given, ActivateBody).seen, request.caller.id

        async def apply() -> ToolRecord:
            return await self._registration.activate(tool_id, by, seen)

        return self._record_response(await self._context.change(f"activate {tool_id}", given, request.caller, apply))

    async def deactivate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/deactivate`: serve it no longer."""
        given = await self._read_empty_body(request)

        async def apply() -> ToolRecord:
            return await self._registration.deactivate(tool_id, request.caller.id)

        return self._record_response(await self._context.change(f"deactivate {tool_id}", given, request.caller, apply))

    async def deprecate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/deprecate`: say that it will go."""
        query_parameters(request)
        given = await read_json(request, self._validator)
        ending = parse_body(given, DeprecateBody)

        async def apply() -> ToolRecord:
            self._check_sunset(ending)
            return await self._registration.deprecate(tool_id, request.caller.id, ending.sunset, ending.successor)

        return self._record_response(await self._context.change(f"deprecate {tool_id}", given, request.caller, apply))

    async def roll_back(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/rollback`: serve the version before again."""
        given = await self._read_empty_body(request)

        async def apply() -> tuple[ToolRecord, ...]:
            return await self._registration.roll_back(tool_id, request.caller.id)

        kept = await self._context.change(f"roll back {tool_id}", given, request.caller, apply)
        return json_response({"tools": list(tool_summaries(kept, self._registration))})

    async def remove(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`DELETE /api/tools/{id}`."""
        given = await self._read_empty_body(request)

        async def apply() -> str:
            found = self._registration.find(tool_id).id
            await self._registration.remove(found, request.caller.id)
            return found

        return json_response({"removed": await self._context.change(f"remove {tool_id}", given, request.caller, apply)})

    def _record_response(self, record: ToolRecord) -> WireResponse:
        return json_response(tool_summary(record, self._registration))

    async def _read_empty_body(self, request: HttpRequest) -> Json:
        """The body of a request that has nothing to say."""
        query_parameters(request)
        given = await read_json(request, self._validator)
        parse_body(given, EmptyBody)
        return given

    def _source(self, request: HttpRequest, behaviour: ChangeKind | None) -> RegistrationSource:
        managed = self._context
        return RegistrationSource(managed.origin, request.caller.id, managed.clock(), managed.detail, behaviour)

    def _check_sunset(self, deprecation: DeprecateBody) -> None:
        today = datetime.fromtimestamp(self._context.clock(), UTC).date()
        if deprecation.sunset is not None and deprecation.sunset < today:
            raise Malformed(f"{deprecation.sunset} is over; today is {today} (UTC), which is the earliest day to name")


def _behaviour(text: str | None) -> ChangeKind | None:
    """What the author says of the change beyond what a definition can show."""
    if text is None or text in BEHAVIOURS:
        return cast("ChangeKind | None", text)
    raise Malformed(f"behaviour is one of {', '.join(BEHAVIOURS)}; leave it out if nothing changed but the definition")


def _detect_dialect(document: Json) -> str:
    try:
        return detect_dialect(document).name
    except BadDocument:
        dialects = ", ".join(READABLE_DIALECTS)
        fix = f"this looks like no known definition; say what it is with ?dialect= and one of {dialects}"
        raise BadDocument([Finding("", "convert/unknown", fix)]) from None


def _declared_name(document: Json) -> str:
    """What a definition calls itself, for the record, as far as it can be told before it is read."""
    inner = document.get("tool", document.get("function", document)) if isinstance(document, dict) else None
    name = inner.get("id", inner.get("name")) if isinstance(inner, dict) else None
    return name if isinstance(name, str) else "?"


class ManagementApi:
    """Answers callers who may manage the hall; every change goes through the hall's own door for changes."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self.context = context
        self._views, changes = ToolQueries(context), ToolChanges(context, validator)
        self._register = changes.register
        self._other_apis = (KeysApi(context, validator), GrantsApi(context, validator), AuditApi(context, validator))
        self._actions: dict[str, dict[str, ToolAction]] = {
            _ITSELF: {"GET": self._views.tool, "DELETE": changes.remove},
            "activate": {"POST": changes.activate},
            "deactivate": {"POST": changes.deactivate},
            "deprecate": {"POST": changes.deprecate},
            "rollback": {"POST": changes.roll_back},
            "history": {"GET": self._views.history},
            "callers": {"GET": self._views.callers},
        }

    def endpoints(self) -> dict[str, Methods]:
        """Every path of management; below a tool, each action has methods of its own."""
        others = {path: methods for each in self._other_apis for path, methods in each.endpoints().items()}
        return {
            **others,
            "/api/tools": {"GET": self._list, "POST": self._add},
            "/api/tools/": {method.value: self._below for method in HTTPMethod},
            "/api/history": {"GET": self._history},
        }

    async def _list(self, request: HttpRequest) -> None:
        await respond(request, self._views.page(request))

    async def _add(self, request: HttpRequest) -> None:
        await respond(request, self._register(request))

    async def _history(self, request: HttpRequest) -> None:
        await respond(request, self._views.history(request))

    async def _below(self, request: HttpRequest) -> None:
        match request.path_segments(TOOL_PREFIX):
            case [str(tool_id)] if tool_id:
                methods = self._actions[_ITSELF]
            case [str(tool_id), str(action)] if tool_id and action:
                methods = self._actions.get(action, {})
            case _:
                tool_id, methods = "", {}
        if not methods:
            await request.reply(error_response(NotFound(self._not_found_message())))
        elif request.method in methods:
            await respond(request, methods[request.method](request, tool_id))
        else:
            await request.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))

    def _not_found_message(self) -> str:
        below = ", ".join(filter(None, self._actions))
        return f"there is nothing here; /api/tools/ID is a tool (escape the / in its id), and below it are {below}"
