"""`/api/tools` and `/api/history`: list, inspect, register and change tools; `ManagementApi` has all routes.

`ToolQueries` reads, `ToolChanges` changes.
"""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from itertools import chain, islice
from typing import cast

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
from toolhall.http.api.audit_state import AuditStateApi, AuditVerification
from toolhall.http.api.base import (
    TOOL_PREFIX,
    ActivateBody,
    DeprecateBody,
    EmptyBody,
    ItemHandler,
    ItemHandlers,
    ManagementContext,
    StateConflict,
    dispatch_below,
    json_response,
    limit_parameter,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.callers import CallCounts, CallersApi
from toolhall.http.api.calls import CallsApi
from toolhall.http.api.check import CheckApi
from toolhall.http.api.contracts import ContractsApi, shown_document
from toolhall.http.api.overview import OverviewApi
from toolhall.http.api.tool_index import LIST_PARAMETERS, ToolIndex
from toolhall.http.api.tool_summaries import (
    event_json,
    schema_members,
    summary_for_callers,
    tool_summaries,
    tool_summary,
    version_json,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.names import precedence
from toolhall.registration.records import CODE_DIALECT, RegistrationSource, tool_from_record
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.tools import ToolRecord

MAX_FINDINGS = 1_000
_ITSELF = ""


def record_findings(record: ToolRecord, other_names: Collection[str]) -> list[JsonObject]:
    """Return the lint findings of a tool's document; a tool defined in code is linted as MCP shows it."""
    if record.dialect == CODE_DIALECT:
        mcp = readable_catalog("mcp")
        return lint_findings(lossless.write((tool_from_record(record),), mcp), mcp.name, other_names)
    return lint_findings(strict_json.decode(record.document), record.dialect, other_names)


def lint_findings(document: Json, dialect: str, other_names: Collection[str]) -> list[JsonObject]:
    """Return the lint findings of a document among tools of these names."""
    linter = Linter[None](dialect)
    findings = chain(linter.lint(document, "", None), (each for _, each in linter.finish(other_names)))
    return [msgspec.structs.asdict(each) for each in islice(findings, MAX_FINDINGS)]


class ToolQueries:
    """Read operations on tools: everybody sees what they may call, administrators and observers all there is."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context
        self._registration = context.registration
        self._index = ToolIndex(context.registration, context.dispatcher.registry, context.page_size)

    async def page(self, request: HttpRequest) -> WireResponse:
        """`GET /api/tools`."""
        parameters = query_parameters(request, LIST_PARAMETERS)
        return json_response(await self._index.page(parameters, self._view_of(request.caller)))

    async def tool(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}`: with its original document, its schemas, all lint findings and versions."""
        query_parameters(request)
        view = self._view_of(request.caller)
        if view is not None:
            return json_response(self._callable_tool(view, tool_id))
        record = self._registration.find(tool_id)
        # Linting a large document takes a while; do not block the loop.
        findings = await asyncio.to_thread(record_findings, record, self._registration.published_names)
        document = msgspec.Raw(record.document)
        versions = self._versions(record)
        return json_response(
            {
                **tool_summary(record, self._registration),
                "document": document,
                "findings": findings,
                "versions": versions,
                **schema_members(self._registration.tool(record)),
            }
        )

    def _view_of(self, caller: Caller) -> Snapshot | None:
        """Return the tools that this caller may see; None for who sees all, also those that are not served."""
        dispatcher = self._context.dispatcher
        if caller.proof == "none" or dispatcher.admin.may_observe(caller):
            self._context.require_observer(caller)
            return None
        return dispatcher.visible_snapshot(caller)

    def _callable_tool(self, view: Snapshot, tool_id: str) -> JsonObject:
        """Return a tool as its callers see it; a tool that they may not see does not exist for them."""
        entry = view.find_any(tool_id)
        if entry is None:
            raise NotFound("there is no such tool; GET /api/tools lists those that you may call")
        record, known = self._registration.find(entry.id), {each.id for each in view.all_entries}
        return {
            **summary_for_callers(tool_summary(record, self._registration)),
            "document": shown_document(record, entry.tool),
            "findings": [],
            "versions": [each for each in self._versions(record) if each["id"] in known],
            **schema_members(entry.tool),
        }

    async def history(self, request: HttpRequest, tool_id: str | None = None) -> WireResponse:
        """`GET /api/history`, or that of one tool, which remains after its removal."""
        self._context.require_observer(request.caller)
        limit = limit_parameter(query_parameters(request, ("limit",)))
        events = await self._registration.history(tool_id, limit)
        if tool_id is not None and not events:
            record = self._registration.find(tool_id)  # by a published name; raises NotFound with a hint
            events = await self._registration.history(record.key, limit)
        return json_response({"events": [event_json(each) for each in events]})

    async def needs(self, caller: Caller) -> JsonObject:
        """Return how many definitions wait for review; none for who may not decide it."""
        if not self._context.dispatcher.admin.is_allowed(caller):
            return {"count": 0}
        return {"count": sum(each.state == "quarantined" for each in self._registration.all_records)}

    async def callers(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}/callers`: its callers; of all versions if the id has none."""
        self._context.require_observer(request.caller)
        query_parameters(request)
        report = CallerReport()
        async with self._context.scans.turn(request.caller):
            await self._context.journal.read(tool_id, report.add)
        document = report.to_json()
        if not document["callers"]:
            self._registration.find(tool_id)
        return json_response(document)

    def _versions(self, record: ToolRecord) -> list[JsonObject]:
        """Return all versions of the tool, newest first."""
        records = [each for each in self._registration.all_records if each.key == record.key]
        records.sort(key=lambda each: precedence(each.version), reverse=True)
        return list(map(version_json, records))


class ToolChanges:
    """Write operations on tools, each audited."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._registration = context.registration
        self._validator = validator

    async def register(self, request: HttpRequest) -> WireResponse:
        """`POST /api/tools`: a definition in the given dialect, or in the detected one."""
        parameters = query_parameters(request, ("dialect", "behaviour"))
        stated, behaviour = parameters.get("dialect"), _behaviour(parameters.get("behaviour"))
        dialect = None if stated is None else readable_catalog(stated).name
        document = await read_json(request, self._validator)

        async def apply() -> tuple[ToolRecord, ...]:
            source = self._source(request, behaviour)
            return await self._registration.register(document, dialect or _detect_dialect(document), source)

        action = f"register {_declared_name(document)}"
        records = await self._context.change(action, document, request.caller, apply)
        other_names = self._registration.published_names
        findings = await asyncio.to_thread(lint_findings, document, records[0].dialect, other_names)
        return json_response({"tools": list(tool_summaries(records, self._registration)), "findings": findings}, 201)

    async def check(self, request: HttpRequest) -> WireResponse:
        """`POST /api/definitions/check`: what registering this definition would do; nothing is stored."""
        self._context.require_admin(request.caller)
        parameters = query_parameters(request, ("dialect", "behaviour"))
        stated, behaviour = parameters.get("dialect"), _behaviour(parameters.get("behaviour"))
        document = await read_json(request, self._validator)
        dialect = _detect_dialect(document) if stated is None else readable_catalog(stated).name
        try:
            records = self._registration.check(document, dialect, self._source(request, behaviour))
        except BadDocument:
            raise
        except Malformed as error:  # as `change` says it of a registration
            raise StateConflict(error.message) from None
        other_names = self._registration.published_names
        findings = await asyncio.to_thread(lint_findings, document, dialect, other_names)
        tools = [{"id": each.id, "name": self._registration.tool(each).name} for each in records]
        return json_response({"dialect": dialect, "tools": tools, "findings": findings})

    async def activate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/activate`: serve it; a quarantined tool needs the digest of the seen document."""
        query_parameters(request)
        body = await read_json(request, self._validator)
        seen, by = parse_body(body, ActivateBody).seen, request.caller.id

        async def apply() -> ToolRecord:
            return await self._registration.activate(tool_id, by, seen)

        return self._record_response(await self._context.change(f"activate {tool_id}", body, request.caller, apply))

    async def deactivate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/deactivate`: stop serving it."""
        body = await self._read_empty_body(request)

        async def apply() -> ToolRecord:
            return await self._registration.deactivate(tool_id, request.caller.id)

        return self._record_response(await self._context.change(f"deactivate {tool_id}", body, request.caller, apply))

    async def deprecate(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/deprecate`: announce its end."""
        query_parameters(request)
        body = await read_json(request, self._validator)
        deprecation = parse_body(body, DeprecateBody)

        async def apply() -> ToolRecord:
            self._check_sunset(deprecation)
            return await self._registration.deprecate(
                tool_id, request.caller.id, deprecation.sunset, deprecation.successor
            )

        return self._record_response(await self._context.change(f"deprecate {tool_id}", body, request.caller, apply))

    async def roll_back(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`POST /api/tools/{id}/rollback`: serve the previous version again."""
        body = await self._read_empty_body(request)

        async def apply() -> tuple[ToolRecord, ...]:
            return await self._registration.roll_back(tool_id, request.caller.id)

        records = await self._context.change(f"roll back {tool_id}", body, request.caller, apply)
        return json_response({"tools": list(tool_summaries(records, self._registration))})

    async def remove(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`DELETE /api/tools/{id}`."""
        body = await self._read_empty_body(request)

        async def apply() -> str:
            record_id = self._registration.find(tool_id).id
            await self._registration.remove(record_id, request.caller.id)
            return record_id

        return json_response({"removed": await self._context.change(f"remove {tool_id}", body, request.caller, apply)})

    def _record_response(self, record: ToolRecord) -> WireResponse:
        return json_response(tool_summary(record, self._registration))

    async def _read_empty_body(self, request: HttpRequest) -> Json:
        """Read the body of an operation without parameters."""
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)
        return body

    def _source(self, request: HttpRequest, behaviour: ChangeKind | None) -> RegistrationSource:
        context = self._context
        return RegistrationSource(context.origin, request.caller.id, context.clock(), context.detail, behaviour)

    def _check_sunset(self, deprecation: DeprecateBody) -> None:
        today = datetime.fromtimestamp(self._context.clock(), UTC).date()
        if deprecation.sunset is not None and deprecation.sunset < today:
            raise Malformed(f"{deprecation.sunset} is over; today is {today} (UTC), which is the earliest day to name")


def _behaviour(text: str | None) -> ChangeKind | None:
    """Return the kind of change that the author declares beyond what the definition shows."""
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
    """Return the name of an unread definition for the audit; ? if it has none."""
    inner = document.get("tool", document.get("function", document)) if isinstance(document, dict) else None
    name = inner.get("id", inner.get("name")) if isinstance(inner, dict) else None
    return name if isinstance(name, str) else "?"


class ManagementApi:
    """The routes of tools, contracts, keys, grants and the audit: reading for administrators and observers."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self.context = context
        self._views, changes = ToolQueries(context), ToolChanges(context, validator)
        self._register, self._check = changes.register, changes.check
        self.verification = AuditVerification(context)
        contracts, counts = ContractsApi(context, validator), CallCounts(context)
        audit_state = AuditStateApi(context, validator, self.verification)
        context.needs |= {"review": self._views.needs, "deprecations": contracts.needs, "audit": audit_state.needs}
        self._other_apis = (
            KeysApi(context, validator),
            GrantsApi(context, validator, counts.by_grant),
            CallersApi(context, counts),
            AuditApi(context, validator),
            audit_state,
            OverviewApi(context),
            CallsApi(context),
            contracts,
            CheckApi(context, validator),
        )
        self._actions: dict[str, dict[str, ItemHandler]] = {
            _ITSELF: {"GET": self._views.tool, "DELETE": changes.remove},
            "activate": {"POST": changes.activate},
            "deactivate": {"POST": changes.deactivate},
            "deprecate": {"POST": changes.deprecate},
            "rollback": {"POST": changes.roll_back},
            "history": {"GET": self._views.history},
            "callers": {"GET": self._views.callers},
            "diff": {"GET": contracts.diff},
            "losses": {"GET": contracts.losses},
        }

    def endpoints(self) -> dict[str, Methods]:
        """Return all routes; below a tool, each action has methods of its own."""
        others = {path: methods for each in self._other_apis for path, methods in each.endpoints().items()}
        return {
            **others,
            "/api/tools": {"GET": self._list, "POST": self._add},
            "/api/definitions/check": {"POST": self._check_definition},
            TOOL_PREFIX: dispatch_below(self._find_item, self._not_found_message()),
            "/api/history": {"GET": self._history},
        }

    async def _list(self, request: HttpRequest) -> None:
        await respond(request, self._views.page(request))

    async def _add(self, request: HttpRequest) -> None:
        await respond(request, self._register(request))

    async def _check_definition(self, request: HttpRequest) -> None:
        await respond(request, self._check(request))

    async def _history(self, request: HttpRequest) -> None:
        await respond(request, self._views.history(request))

    def _find_item(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(TOOL_PREFIX):
            case [str(tool_id)] if tool_id:
                return tool_id, self._actions[_ITSELF]
            case [str(tool_id), str(action)] if tool_id and action in self._actions and action:
                return tool_id, self._actions[action]
            case _:
                return None

    def _not_found_message(self) -> str:
        below = ", ".join(filter(None, self._actions))
        return f"there is nothing here; /api/tools/ID is a tool (escape the / in its id), and below it are {below}"
