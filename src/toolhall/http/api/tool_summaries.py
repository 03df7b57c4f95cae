"""JSON of registered tools and their events: `tool_summary`, `tool_summaries`, `version_json`, `event_json`."""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from toolhall.http.api.base import iso_time, optional_time
from toolhall.model.caller import effective_level
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import precedence
from toolhall.model.requirements import requirements_from_json
from toolhall.model.tool import Tool
from toolhall.registration.service import RegistrationService
from toolhall.stores.tools import ToolEvent, ToolRecord


def tool_summary(record: ToolRecord, registration: RegistrationService) -> JsonObject:
    """Return one tool as JSON, without its document."""
    (summary,) = tool_summaries((record,), registration)
    return summary


def tool_summaries(records: Collection[ToolRecord], registration: RegistrationService) -> Iterator[JsonObject]:
    """Yield tools as JSON; tools of one document are adjacent, and its digest is computed once."""
    keys = {record.key for record in records}
    newest = newest_ids(each for each in registration.all_records if each.key in keys)
    document, digest = b"", ""
    for record in records:
        if record.document is not document:
            document, digest = record.document, record.document_digest
        tool = registration.tool(record)
        yield {
            **stored_members(record, tool, digest),
            "served": registration.is_served(record),
            "effectiveLevel": effective_level(tool, registration.level_overrides),
            "newest": record.id in newest,
        }


def summary_for_callers(summary: JsonObject) -> JsonObject:
    """Return a summary without what only those who may read the hall see: who declared the tool, and where it runs."""
    return {**summary, "by": "", "originDetail": "", "server": None}


def newest_ids(records: Iterable[ToolRecord]) -> frozenset[str]:
    """Return the ids of the newest version of each tool, whatever its state."""
    newest: dict[str, ToolRecord] = {}
    for record in records:
        before = newest.setdefault(record.key, record)
        if before is not record and _rank(before.version) < _rank(record.version):
            newest[record.key] = record
    return frozenset(record.id for record in newest.values())


_rank = lru_cache(maxsize=4096)(precedence)


def stored_members(record: ToolRecord, tool: Tool, document_digest: str) -> JsonObject:
    """Return the members of a summary that follow from the record and its tool alone."""
    return {
        "id": record.id,
        "toolkit": record.toolkit,
        "tool": record.tool,
        "version": record.version,
        "kind": tool.kind,
        "uri": None if tool.resource is None else tool.resource.uri,
        "mimeType": None if tool.resource is None else tool.resource.mime_type,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description or "",
        "state": record.state,
        "origin": record.origin,
        "originDetail": record.origin_detail,
        "by": record.by,
        "registeredAt": iso_time(record.registered_at),
        "changedAt": iso_time(record.changed_at),
        "deprecatedAt": optional_time(record.deprecated_at),
        "sunset": record.sunset,
        "successor": record.successor,
        "dialect": record.dialect,
        "digests": {"shown": record.shown_digest, "contract": record.contract_digest, "document": document_digest},
        "level": tool.level,
        "effect": tool.effect,
        "tags": list(tool.tags),
        "requirements": list(_requirement_rows(tool)),
        "server": server_of(record),
    }


def server_of(record: ToolRecord) -> str | None:
    """Return the name of the tool server that declared the tool; None for a tool from elsewhere."""
    return record.origin_detail if record.origin == "tool-server" else None


def version_json(record: ToolRecord) -> JsonObject:
    """Return one of the versions of a tool as JSON."""
    return {
        "id": record.id,
        "state": record.state,
        "registeredAt": iso_time(record.registered_at),
        "sunset": record.sunset,
        "deprecatedAt": optional_time(record.deprecated_at),
        "successor": record.successor,
    }


def schema_members(tool: Tool) -> JsonObject:
    """Return the schemas of a tool, the examples of arguments that its input schema states, and what is completed."""
    stated = tool.input.get("examples")
    examples = [each for each in stated if isinstance(each, dict)] if isinstance(stated, list) else []
    completed = tool.resource or tool.prompt
    return {
        "inputSchema": tool.input,
        "outputSchema": tool.output.schema,
        "examples": examples,
        "completes": [] if completed is None else list(completed.completes),
    }


def event_json(event: ToolEvent) -> JsonObject:
    """Return one event of a history as JSON."""
    return {
        "at": iso_time(event.at),
        "by": event.by,
        "id": event.id,
        "what": event.what,
        "detail": event.detail,
    }


def _requirement_rows(tool: Tool) -> Iterator[dict[str, Json]]:
    needed = requirements_from_json(tool.requirements)
    if needed is None:
        return
    yield from ({"kind": "secret", "name": name} for name in needed.secrets)
    yield from ({"kind": "account", "name": account.provider} for account in needed.accounts)
    if needed.user_id:
        yield {"kind": "user", "name": "user_id"}
