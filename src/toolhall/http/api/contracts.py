"""`/api/contracts`, `/api/tools/{id}/diff` and `/losses`: changes between versions, and what dialects cannot say."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from toolhall.contracts.digest import compute_digests, compute_legacy_digests
from toolhall.contracts.lockfile import Lock, build_lock, compare_locks, lock_entry, read_lock
from toolhall.contracts.release import ReleaseCheck, check_release
from toolhall.dialects.catalogs import ALIASES, DIALECTS, readable_catalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.convert.export import write_tools
from toolhall.dialects.findings import BadDocument
from toolhall.http.api.audit import CallerReport
from toolhall.http.api.base import (
    ManagementContext,
    json_response,
    optional_time,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.recent_calls import RecentCalls, callers_by_tool
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.model.names import precedence
from toolhall.model.tool import Tool
from toolhall.registration.service import RegistrationService
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.tools import ToolRecord

SOON_SECONDS = 30 * 86_400.0  # a last day that is nearer needs somebody
MAX_NEEDS = 100
_MCP = readable_catalog("mcp")


class LockBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a lock file."""

    lock: JsonObject


class ContractsApi:
    """What the versions of tools promise, for observers."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._registration = context.registration
        self._validator = validator
        self._recent = RecentCalls(context.journal, context.clock)
        self._checks: dict[tuple[str, ...], ReleaseCheck] = {}  # of pairs of versions, by their digests
        self._locks: tuple[Snapshot | None, Lock, Lock] = (None, {}, {})  # of what is served now

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of contracts; those below a tool are in `ManagementApi`."""
        return {"/api/contracts": {"GET": self.overview}, "/api/contracts/lock": {"POST": self.check_lock}}

    async def overview(self, request: HttpRequest) -> None:
        """`GET /api/contracts`."""
        await respond(request, self._overview(request))

    async def check_lock(self, request: HttpRequest) -> None:
        """`POST /api/contracts/lock`."""
        await respond(request, self._check_lock(request))

    async def diff(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}/diff`: what changed since another version, and who called that one."""
        self._context.require_observer(request.caller)
        stated = query_parameters(request, ("from",)).get("from")
        record = self._registration.find(tool_id)
        before = self._compared_version(record) if stated is None else self._registration.find(stated)
        tools = [self._registration.tool(each) for each in (before, record) if each is not None]
        check = await asyncio.to_thread(check_release, tools[:-1], tools[-1:]) if before is not None else _FIRST_VERSION
        report = CallerReport()
        if before is not None and check.changes:
            async with self._context.scans.turn(request.caller):
                await self._context.journal.read(before.id, report.add)
        callers = report.to_json()["callers"]
        return json_response(
            {
                "from": None if before is None else before.id,
                "to": record.id,
                "required": check.required,
                "declared": check.declared,
                "ok": check.ok,
                "changes": check.changes,
                "callers": [{key: each[key] for key in ("caller", "calls", "last")} for each in callers],
                "documents": {
                    "from": None if before is None else shown_document(before, tools[0]),
                    "to": shown_document(record, tools[-1]),
                },
            }
        )

    async def losses(self, request: HttpRequest, tool_id: str) -> WireResponse:
        """`GET /api/tools/{id}/losses`: what each dialect cannot say of the tool."""
        self._context.require_observer(request.caller)
        query_parameters(request)
        tool = self._registration.tool(self._registration.find(tool_id))
        return json_response({"dialects": await asyncio.to_thread(_losses_by_dialect, tool)})

    async def needs(self, caller: Caller) -> list[JsonObject]:
        """Return the tools whose last day is near or over, the first in front, and who still calls them."""
        if not self._context.dispatcher.admin.may_observe(caller):
            return []
        near = datetime.fromtimestamp(self._context.clock() + SOON_SECONDS, UTC).date().isoformat()
        ending = [each for each in self._deprecated() if each.sunset is not None and each.sunset <= near]
        ending = ending[:MAX_NEEDS]
        callers = callers_by_tool(await self._recent.read(), {each.id for each in ending}) if ending else {}
        return [
            {"id": each.id, "sunset": each.sunset, "callers": [row["caller"] for row in callers[each.id]]}
            for each in ending
        ]

    async def _overview(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        records = self._registration.all_records
        breaking = await asyncio.to_thread(self._breaking, records)
        ending = self._deprecated()
        ids = {old.id for old, _, _ in breaking} | {record.id for record in ending}
        callers = callers_by_tool(await self._recent.read(), ids) if ids else {}
        return json_response(
            {
                "breaking": [
                    {"from": old.id, "to": new.id, "changes": check.changes, "callers": callers[old.id]}
                    for old, new, check in breaking
                ],
                "deprecations": [
                    {
                        "id": record.id,
                        "sunset": record.sunset,
                        "successor": record.successor,
                        "deprecatedAt": optional_time(record.deprecated_at),
                        "callers": callers[record.id],
                    }
                    for record in ending
                ],
            }
        )

    async def _check_lock(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        body = parse_sensitive_body(
            await read_json(request, self._validator), LockBody, '{"lock": {"lock": 1, "tools": {}}}, a lock file'
        )
        try:
            locked = read_lock(encode(body.lock))
        except BadDocument as bad:
            raise Malformed(bad.message) from None
        drifts = compare_locks(locked, *await self._current_locks())
        drift = [{"tool": each.tool, "what": each.kind} for each in drifts]
        return json_response({"ok": not drifts, "checked": len(locked), "drift": drift})

    async def _current_locks(self) -> tuple[Lock, Lock]:
        """Return the digests of what is served now, and those that lock files of older versions have of it."""
        snapshot = self._context.dispatcher.registry.snapshot
        if self._locks[0] is not snapshot:
            self._locks = (snapshot, *await asyncio.to_thread(locks_of, listed_definitions(snapshot)))
        return self._locks[1:]

    def _deprecated(self) -> list[ToolRecord]:
        """Return the deprecated tools by their last day; those without one last."""
        return sorted(
            (record for record in self._registration.all_records if record.deprecated_at is not None),
            key=lambda record: (record.sunset is None, record.sunset or "", record.id),
        )

    def _compared_version(self, record: ToolRecord) -> ToolRecord | None:
        """Return the version before; for a tool in quarantine the newest one that is served, if there is one."""
        others = _by_version(each for each in self._registration.all_records if each.key == record.key)
        if record.state == "quarantined":
            served = [each for each in others if each.id != record.id and self._registration.is_served(each)]
            if served:
                return served[-1]
        place = others.index(record)
        return others[place - 1] if place else None

    def _breaking(self, records: Iterable[ToolRecord]) -> list[tuple[ToolRecord, ToolRecord, ReleaseCheck]]:
        """Return the newest versions that break the ones before, with these and the changes; checked once per pair."""
        versions: dict[str, list[ToolRecord]] = {}
        for record in records:
            versions.setdefault(record.key, []).append(record)
        checks: dict[tuple[str, ...], ReleaseCheck] = {}
        found: list[tuple[ToolRecord, ToolRecord, ReleaseCheck]] = []
        for _, several in sorted(versions.items()):
            if len(several) == 1:
                continue
            old, new = _by_version(several)[-2:]
            key = (old.id, *old.digests, new.id, *new.digests)
            check = checks[key] = self._checks.get(key) or _check_pair(self._registration, old, new)
            breaking = [change for change in check.changes if change.kind == "breaking"]
            if breaking:
                found.append((old, new, msgspec.structs.replace(check, changes=breaking)))
        self._checks = checks
        return found


_FIRST_VERSION = ReleaseCheck("none", "none", True, [])  # there is nothing to compare with


def _check_pair(registration: RegistrationService, old: ToolRecord, new: ToolRecord) -> ReleaseCheck:
    return check_release([registration.tool(old)], [registration.tool(new)])


def _by_version(records: Iterable[ToolRecord]) -> list[ToolRecord]:
    return sorted(records, key=lambda record: precedence(record.version))


def shown_document(record: ToolRecord, tool: Tool) -> Json:
    """Return the tool as MCP shows it, so that versions of any dialect can be compared line by line."""
    try:
        return lossless.write((tool,), _MCP)
    except BadDocument:
        return msgspec.Raw(record.document)


def _losses_by_dialect(tool: Tool) -> list[JsonObject]:
    return [_losses_in(dialect, tool) for dialect in DIALECTS if dialect not in ALIASES]


def _losses_in(dialect: str, tool: Tool) -> JsonObject:
    try:
        losses = write_tools(dialect, [tool]).losses
    except BadDocument as bad:
        return {"dialect": dialect, "exact": False, "refused": [str(each) for each in bad.findings], "losses": []}
    return {"dialect": dialect, "exact": not losses, "refused": None, "losses": losses}


def listed_definitions(snapshot: Snapshot) -> list[Tool]:
    """Return the tools, resources and prompts that MCP clients are listed."""
    resources = (*snapshot.resources.pages.tools, *snapshot.resources.template_pages.tools)
    return [*(entry.tool for entry in snapshot.listed), *resources, *snapshot.prompts.pages.tools]


def locks_of(tools: Sequence[Tool]) -> tuple[Lock, Lock]:
    """Return the digests of these tools as `toolhall lock` writes them, and as older versions of it did."""
    documents = [msgspec.json.decode(encode(each)) for each in write_tools(_MCP.name, tools).documents]
    current, legacy = (
        build_lock(lock_entry(document, compute) for document in documents)
        for compute in (compute_digests, compute_legacy_digests)
    )
    return current, legacy
