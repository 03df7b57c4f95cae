"""`/api/audit`: search of audit records; and `CallerReport`, the callers of a tool counted from its records."""

import asyncio
from dataclasses import dataclass, field

from toolhall.http.api.base import (
    EmptyBody,
    ManagementContext,
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
from toolhall.model.call_records import AuditRecord
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.names import precedence
from toolhall.stores.audit.filters import FILTER_NAMES, InvalidQuery, parse_query
from toolhall.stores.audit.query import parse_cursor, record_document, write_cursor

MAX_CALLERS = 1_000
MAX_WORDS = 100  # versions or dialects of one caller
_NOT_FOUND = {"NotFound", "NotActive"}


@dataclass
class CallerStats:
    """Counts of one caller."""

    calls: int = 0
    last: float = 0.0
    versions: set[str] = field(default_factory=set)
    dialects: set[str] = field(default_factory=set)


class CallerReport:
    """Counts calls by caller; names the 1,000 most recent callers, and remembers at most twice as many."""

    def __init__(self) -> None:
        self._stats: dict[str, CallerStats] = {}
        self._others = 0

    def add(self, record: AuditRecord) -> None:
        """Count a record of a call that found the tool, refused or not."""
        if record.is_management or not reached_tool(record):
            return
        stats = self._stats.setdefault(record.caller, CallerStats())
        stats.calls += 1
        stats.last = max(stats.last, record.time)
        _add_bounded(stats.versions, record.tool.rpartition("@")[2])
        _add_bounded(stats.dialects, record.dialect)
        if len(self._stats) > 2 * MAX_CALLERS:
            self._evict()

    def to_json(self) -> JsonObject:
        """Return the callers, most recent first; `others` counts the calls of callers that are not named."""
        self._evict()
        return {
            "callers": [_stats_json(caller, stats) for caller, stats in self._stats.items()],
            "others": self._others,
        }

    def _evict(self) -> None:
        ranked = sorted(self._stats.items(), key=lambda each: -each[1].last)
        self._stats = dict(ranked[:MAX_CALLERS])
        self._others += sum(stats.calls for _, stats in ranked[MAX_CALLERS:])


def reached_tool(record: AuditRecord) -> bool:
    """Whether the record's tool is an id; of a tool that was not found, it is only the name in the call."""
    return record.grant is not None or record.outcome not in _NOT_FOUND


def _add_bounded(words: set[str], word: str) -> None:
    if len(words) < MAX_WORDS:
        words.add(word)


def _stats_json(caller: str, stats: CallerStats) -> JsonObject:
    return {
        "caller": caller,
        "calls": stats.calls,
        "last": iso_time(stats.last),
        "versions": sorted(stats.versions, key=precedence, reverse=True),
        "dialects": sorted(stats.dialects),
    }


class AuditApi:
    """`/api/audit`: search of records, for others than observers of their own calls, and acceptance of a mismatch."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of the audit."""
        return {"/api/audit": {"GET": self.search}, "/api/audit/accept": {"POST": self.accept}}

    async def search(self, request: HttpRequest) -> None:
        """`GET /api/audit`."""
        await respond(request, self._search(request))

    async def accept(self, request: HttpRequest) -> None:
        """`POST /api/audit/accept`."""
        await respond(request, self._accept(request))

    async def _accept(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)
        anchor_sync, by = self._context.journal.anchor_sync, request.caller.id

        async def apply() -> tuple[str, ...]:
            return () if anchor_sync is None else await asyncio.to_thread(anchor_sync.accept, by)

        accepted = await self._context.change("accept audit", body, request.caller, apply)
        return json_response({"accepted": list(accepted)})

    async def _search(self, request: HttpRequest) -> WireResponse:
        parameters = query_parameters(request, (*FILTER_NAMES, "limit", "cursor"))
        try:
            query = parse_query(parameters)
        except InvalidQuery as error:
            raise Malformed(str(error)) from None
        try:
            before = parse_cursor(parameters.get("cursor") or None)
        except InvalidQuery as error:
            raise NotFound(str(error)) from None
        page = await self._context.search_calls(query, limit_parameter(parameters), request.caller, before)
        document: JsonObject = {"records": [record_document(each) for each in page.records]}
        return json_response(document if page.next is None else {**document, "nextCursor": write_cursor(page.next)})
