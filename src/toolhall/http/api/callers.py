"""`/api/callers`, and CallCounts: the calls of each caller and those that each grant decided, in the last 30 days.

Nothing is counted until somebody asks. The first request reads the newest records in a thread, later ones only what was
added since. Names come from callers, so that their number is bounded.
"""

import asyncio
from collections import Counter
from itertools import islice

from toolhall.http.api.access import key_json
from toolhall.http.api.base import ManagementContext, json_response, optional_time, query_parameters, respond
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.call_records import AuditRecord, outcome_kind
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.stores.access import ApiKey
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.follow import Follower

DAY = 86_400
DAYS = 30
MAX_COUNTED = 200_000  # records of a first reading, the newest of each log first
MAX_NAMES = 5_000  # callers, and grants, of one day
MAX_ROWS = 10_000


class _Day:
    """The calls that ended on one day."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()  # by caller
        self.refused: Counter[str] = Counter()  # by caller
        self.grants: Counter[str] = Counter()
        self.last: dict[str, float] = {}  # by caller

    def add(self, record: AuditRecord) -> None:
        if record.caller in self.calls or len(self.calls) < MAX_NAMES:
            self.calls[record.caller] += 1
            self.refused[record.caller] += outcome_kind(record.outcome) == "refused"
            self.last[record.caller] = max(record.time, self.last.get(record.caller, 0.0))
        if record.grant is not None and (record.grant in self.grants or len(self.grants) < MAX_NAMES):
            self.grants[record.grant] += 1


class CallCounts:
    """Counts the calls of the last 30 days by caller and by grant, as far as their records are kept."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()  # one thread counts at a time
        self._follower: Follower | None = None
        self._days: dict[int, _Day] = {}

    async def update(self) -> None:
        """Count what was recorded since the last time."""
        await self._context.journal.flush()
        async with self._lock:
            await asyncio.to_thread(self._read)

    async def by_grant(self) -> Counter[str]:
        """Return the calls that each grant decided, counted anew."""
        await self.update()
        return sum((day.grants for day in tuple(self._days.values())), Counter())

    def by_caller(self) -> dict[str, tuple[int, int, float]]:
        """Return the calls of each caller, how many of them were refused, and the time of the last one."""
        found: dict[str, tuple[int, int, float]] = {}
        for day in tuple(self._days.values()):
            for caller, calls in tuple(day.calls.items()):
                before = found.get(caller, (0, 0, 0.0))
                refused, last = before[1] + day.refused[caller], max(before[2], day.last[caller])
                found[caller] = before[0] + calls, refused, last
        return found

    def _read(self) -> None:
        reader, oldest = self._context.reader, int(self._context.clock() // DAY) - DAYS
        if self._follower is None:
            follower = reader.follow()
            before = follower.positions  # what comes behind them is read as new
            for found in islice(reader.scan(AuditQuery(since=float(oldest * DAY)), before), MAX_COUNTED):
                self._add(found.record)
            self._follower = follower
        while new := self._follower.read():
            for found in new:
                self._add(found.record)
        for day in [day for day in self._days if day < oldest]:
            del self._days[day]

    def _add(self, record: AuditRecord) -> None:
        if record.is_ended_call:
            self._days.setdefault(int(record.time // DAY), _Day()).add(record)


class CallersApi:
    """`/api/callers`, for administrators and observers: the names of keys, and of callers seen in the audit."""

    def __init__(self, context: ManagementContext, counts: CallCounts) -> None:
        self._context = context
        self._counts = counts

    def endpoints(self) -> dict[str, Methods]:
        """Return the route of callers."""
        return {"/api/callers": {"GET": self.callers}}

    async def callers(self, request: HttpRequest) -> None:
        """`GET /api/callers`."""
        await respond(request, self._list(request))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        await self._counts.update()
        seen = self._counts.by_caller()
        keys: dict[str, list[ApiKey]] = {}
        for key in self._context.access.keys.all:
            keys.setdefault(key.name, []).append(key)
        names = sorted({*keys, *seen}, key=lambda name: (-seen.get(name, (0, 0, 0.0))[2], name))
        rows: list[Json] = [
            _caller_json(name, keys.get(name, ()), seen.get(name, (0, 0, 0.0))) for name in names[:MAX_ROWS]
        ]
        return json_response({"callers": rows})


def _caller_json(name: str, keys: "list[ApiKey] | tuple[()]", seen: tuple[int, int, float]) -> JsonObject:
    """Return one caller; what its keys say of it comes from those that are not revoked, if there are any."""
    current = [key for key in keys if key.revoked_at is None] or list(keys)
    calls, refused, last = seen
    used = [key.last_used_at for key in keys if key.last_used_at is not None]
    return {
        "name": name,
        "proof": _proof(name, current),
        "owner": next((key.owner for key in current if key.owner is not None), None),
        "scopes": sorted({scope for key in current for scope in key.scopes}),
        "keys": [key_json(key) for key in keys],
        "lastAt": optional_time(max([last, *used]) or None),
        "calls": calls,
        "refused": refused,
    }


def _proof(name: str, keys: list[ApiKey]) -> str:
    if keys:
        return "shared" if all(key.shared for key in keys) else "key"
    if name in ("local", "anonymous"):
        return "local" if name == "local" else "none"
    return "token" if ":" in name else "none"
